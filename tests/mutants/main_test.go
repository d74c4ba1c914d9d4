//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/tests/model"
)

func TestMain(m *testing.M) { os.Exit(testkit.Run(m)) }

// TestBreaks: each break can still be made, and compiles, of which one in three is tried each
// time; its tests are there. So whoever changes the code mends the breaks with it.
func TestBreaks(t *testing.T) {
	repository, err := filepath.Abs("../..")
	testkit.Check(t, err)
	all, err := readAll(".", nil)
	testkit.Check(t, err)
	if len(all) < 100 {
		t.Fatalf("found only %d breaks", len(all))
	}
	b, err := newBench(repository, t.TempDir())
	testkit.Check(t, err)
	compiler := newCompiler(t, repository, all)
	for _, m := range all {
		undo, err := m.apply(b.tree)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, folder := range m.folders() {
			if !testkit.Sample(3) {
				continue
			}
			if err := compiler.compile(b.tree, folder); err != nil {
				t.Errorf("%s: it does not compile any more: %v", m.name, err)
			}
		}
		testkit.Check(t, undo())
		for _, l := range m.looks {
			for tests := range strings.SplitSeq(l.tests, "|") {
				if !hasTests(t, filepath.Join(b.tree, l.folder), tests) {
					t.Errorf("%s: no test in %s is %q", m.name, l.folder, tests)
				}
			}
		}
	}
}

// TestGuards: each guard of the model is among them.
func TestGuards(t *testing.T) {
	all, err := readAll(".", nil)
	testkit.Check(t, err)
	broken := map[string]bool{}
	for _, m := range all {
		if m.guard != "" {
			broken[m.guard] = true
		}
	}
	for _, g := range slices.Concat(model.Guards, model.Spare) {
		if !broken[g.Name] {
			t.Errorf("no break takes out %s: %s", g.Name, g.Does)
		}
		delete(broken, g.Name)
	}
	for name := range broken {
		t.Errorf("the model has no guard %s", name)
	}
}

// folders are those of the packages that it changes.
func (m *mutant) folders() []string {
	all := map[string]bool{}
	for _, c := range m.changes {
		all[c.folder] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// hasTests reports whether a folder has a test of a pattern's.
func hasTests(t *testing.T, folder, pattern string) bool {
	t.Helper()
	is := regexp.MustCompile(pattern)
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	testkit.Check(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		testkit.Check(t, err)
		for _, found := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(string(text), -1) {
			if is.MatchString(found[1]) {
				return true
			}
		}
	}
	return false
}

// A compiler checks packages, with what go build has made of those that they import. To
// build each break would take a second or more.
type compiler struct {
	files    *token.FileSet
	importer types.Importer
	sources  map[string][]string // by folder
	paths    map[string]string
}

func newCompiler(t *testing.T, repository string, all []*mutant) *compiler {
	t.Helper()
	c := &compiler{files: token.NewFileSet(), sources: map[string][]string{}, paths: map[string]string{}}
	folders := map[string]bool{}
	for _, m := range all {
		for _, folder := range m.folders() {
			folders["./"+folder] = true
		}
	}
	list := exec.Command("go", append([]string{"list", "-export", "-deps", "-json=Dir,ImportPath,Export,GoFiles"}, slices.Sorted(maps.Keys(folders))...)...)
	list.Dir = repository
	list.Stderr = os.Stderr
	out, err := list.StdoutPipe()
	testkit.Check(t, err)
	testkit.Check(t, list.Start())
	exports := map[string]string{}
	for decoder := json.NewDecoder(out); ; {
		var p struct {
			Dir, ImportPath, Export string
			GoFiles                 []string
		}
		if err := decoder.Decode(&p); err == io.EOF {
			break
		} else {
			testkit.Check(t, err)
		}
		exports[p.ImportPath] = p.Export
		if folder, err := filepath.Rel(repository, p.Dir); err == nil && folders["./"+folder] {
			c.sources[folder], c.paths[folder] = p.GoFiles, p.ImportPath
		}
	}
	testkit.Check(t, list.Wait())
	c.importer = importer.ForCompiler(c.files, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	return c
}

// compile checks the package in a folder of a tree.
func (c *compiler) compile(tree, folder string) error {
	var all []*ast.File
	for _, name := range c.sources[folder] {
		f, err := parser.ParseFile(c.files, filepath.Join(tree, folder, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		all = append(all, f)
	}
	if len(all) == 0 {
		return errors.New("there is nothing in " + folder)
	}
	config := types.Config{Importer: c.importer}
	_, err := config.Check(c.paths[folder], c.files, all, nil)
	return err
}
