package tests

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/claims"
	"github.com/holdfast-go/holdfast/lock/dispatch"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/lock/ledger"
)

func repositoryFile(t *testing.T, path string) string {
	t.Helper()
	data := must(os.ReadFile(filepath.Join("..", filepath.FromSlash(path))))(t)
	return string(data)
}

var (
	link = regexp.MustCompile(`\[([^\]]*)\]\(([^)]*)\)`)
	code = regexp.MustCompile("(?ms)^```.*?^```$")
)

// TestDocs_Links: what the pages at the top of the repository lead to is there. A link
// that bears a test's name leads to the file that has the test.
func TestDocs_Links(t *testing.T) {
	pages, err := filepath.Glob("../*.md")
	if err != nil || len(pages) < 3 {
		t.Fatal(pages, err)
	}
	for _, page := range pages {
		page = filepath.Base(page)
		text := code.ReplaceAllString(repositoryFile(t, page), "")
		for _, l := range link.FindAllStringSubmatch(text, -1) {
			name, target := l[1], l[2]
			path, anchor, _ := strings.Cut(target, "#")
			switch {
			case strings.Contains(target, "://"):
			case path == "" && !slices.Contains(anchors(text), anchor):
				t.Errorf("%s leads to #%s, and has no such heading", page, anchor)
			case path == "":
			default:
				if _, err := os.Stat(filepath.Join("..", filepath.FromSlash(path))); err != nil {
					t.Errorf("%s leads to %s: %v", page, path, err)
				} else if isTest(name) && !strings.Contains(repositoryFile(t, path), "\nfunc "+name+"(t *testing.T) {") {
					t.Errorf("%s: there is no %s in %s", page, name, path)
				}
			}
		}
	}
}

func isTest(name string) bool { return regexp.MustCompile(`^Test[A-Z]\w*$`).MatchString(name) }

// anchors are those of the headings, as forges make them.
func anchors(text string) (all []string) {
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		plain := regexp.MustCompile(`[^\w -]`).ReplaceAllString(strings.ToLower(heading[1]), "")
		all = append(all, strings.ReplaceAll(plain, " ", "-"))
	}
	return all
}

// TestFormats_Named: FORMATS.md names no test but by a link, which TestDocs_Links follows,
// and every golden file of a format.
func TestFormats_Named(t *testing.T) {
	text := repositoryFile(t, "FORMATS.md")
	for _, name := range regexp.MustCompile(`\bTest[A-Z]\w*`).FindAllString(link.ReplaceAllString(text, ""), -1) {
		t.Errorf("%s is no link to the file that has it", name)
	}
	var golden []string
	for _, pattern := range []string{"../lock/testdata/*", "../lock/*/testdata/*"} {
		files := must(filepath.Glob(pattern))(t)
		golden = append(golden, files...)
	}
	if len(golden) < 10 {
		t.Fatalf("found only %q", golden)
	}
	for _, file := range golden {
		if info, err := os.Stat(file); err != nil || info.IsDir() {
			continue // what a fuzz test has found
		}
		if filepath.Base(file) == "model.txt" {
			continue // no format, but the walks of the model: see tests/model
		}
		if name := strings.TrimPrefix(filepath.ToSlash(file), "../"); !strings.Contains(text, name) {
			t.Errorf("%s is not named", name)
		}
	}
}

// TestFormats_Examples: an example that names a golden file is that file. The tables have
// the fields that are in the examples and in what is written, and no others.
func TestFormats_Examples(t *testing.T) { // guards: O1
	text := repositoryFile(t, "FORMATS.md")
	written := map[string]bool{}
	see := func(where, claim string) {
		var fields map[string]any
		noErr(t, json.Unmarshal([]byte(claim), &fields), where)
		for name := range fields {
			written[name] = true
		}
	}
	blocks := regexp.MustCompile("(?ms)^```json *([^\n]*)\n(.*?)^```$").FindAllStringSubmatch(text, -1)
	if len(blocks) < 10 {
		t.Fatalf("found only %d examples", len(blocks))
	}
	for _, block := range blocks {
		file, example := block[1], strings.TrimSpace(block[2])
		if file != "" && strings.TrimSpace(repositoryFile(t, file)) != example {
			t.Errorf("the example is not %s:\n%s", file, example)
		}
		if !strings.HasSuffix(file, "claim_other_program.json") && !strings.HasSuffix(file, "claim_holdfast_0.json") {
			see("example "+file, example)
		}
	}
	for _, of := range []reflect.Type{reflect.TypeFor[evidence.Claim](), reflect.TypeFor[claims.Claim](), reflect.TypeFor[dispatch.Claim]()} {
		for i := range of.NumField() {
			if name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ","); name != "" {
				written[name] = true
			}
		}
	}
	for where, claim := range writtenClaims(t) {
		see(where, claim)
	}

	described := map[string]bool{}
	for _, table := range regexp.MustCompile(`(?m)^\| field \|.*\n((?:\|.*\n)*)`).FindAllStringSubmatch(text, -1) {
		for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|").FindAllStringSubmatch(table[1], -1) {
			described[row[1]] = true
		}
	}
	if !maps.Equal(described, written) {
		t.Errorf("the tables have\n%q, and there are\n%q", slices.Sorted(maps.Keys(described)), slices.Sorted(maps.Keys(written)))
	}
}

// writtenClaims are lock files as they lie there while the lock is held.
func writtenClaims(t *testing.T) map[string]string {
	all := map[string]string{}
	keep := func(path string) {
		data, err := os.ReadFile(path)
		noErr(t, err)
		all[path] = string(data)
	}
	f := lock.File{Path: filepath.Join(t.TempDir(), "deploy.lock")}
	noErr(t, f.Do(t.Context(), func(context.Context, *lock.FileHold) error { keep(f.Path); return nil }))
	l := ledger.Ledger{Dir: t.TempDir()}
	err := l.Locked(t.Context(), func(context.Context, *ledger.Writer) error {
		keep(filepath.Join(l.Dir, "ledger", "ledger.lock"))
		return nil
	})
	noErr(t, err)
	claim := must(dispatch.Locks{Dir: t.TempDir()}.Acquire(t.Context(), "id"))(t)
	keep(claim.LockPath)
	noErr(t, errOf(claim.Release()))
	return all
}
