package command

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
)

// notRun are the recipes that can't be run here, by how they begin, and why.
var notRun = map[string]string{
	"go install ":                           "fetches what has been published",
	"go get ":                               "fetches what has been published",
	"sh tests/all.sh":                       "runs this test",
	"holdfast serve ":                       "goes on until a signal comes; see TestServe",
	"holdfast watch ":                       "goes on until a signal comes; see TestWatch_Lines",
	"curl -s ":                              "asks a server; see TestServe",
	"holdfast claim reap --every 30s proof": "goes on until a signal comes; see TestClaimReapEvery",
	"holdfast run --pg":                     "needs a server; see TestRecipes of cmd/holdfast",
	"holdfast run --etcd":                   "needs a cluster; see TestEtcd of cmd/holdfast",
	"holdfast status --pg":                  "needs a server; see TestRecipes of cmd/holdfast",
	"PGSERVICE=app ":                        "needs a server; see TestRecipes of cmd/holdfast",
}

// recipeNeeds is what has been done before a recipe of help: who reads it has a ledger, or
// a claim. Those of the README stand one behind the other, and need nothing.
var recipeNeeds = map[string]string{
	"holdfast ledger read":             `holdfast ledger append proof '{"type":"lock_acquired"}' '{"type":"x"}'`,
	"holdfast ledger append --if-sequ": "holdfast ledger append proof 1",
	"n=$(holdfast ledger head":         "holdfast ledger append proof 1",
	"holdfast ledger verify":           "holdfast ledger append proof 1",
	"holdfast ledger export proof":     "holdfast ledger append proof 1",
	"holdfast ledger export --after":   "holdfast ledger append proof 1 && holdfast ledger export proof > proof.jsonl",
	"holdfast ledger append new <":     "holdfast ledger append proof 1 && holdfast ledger export proof > proof.jsonl",
	"while sleep 60; do holdfast":      "holdfast claim take --owner me proof 1",
	"holdfast claim release":           "holdfast claim take --owner agent-7 proof 1.2.3",
	"holdfast claim list":              "holdfast claim take --owner agent-7 proof 1.2.3",
	". ./session; ":                    "holdfast hold --sh --owner $PPID deploy.lock >session",
}

// recipeSays are the recipes in which holdfast has something to say on standard error.
var recipeSays = map[string]string{
	"holdfast ledger append --if-sequence 41 proof": "not 41: somebody has appended",
	"sh tests/demo.sh":       "is locked; the command was not run",
	`s=$(holdfast hold --sh`: "warning: the owner is pid", // each recipe has a shell of its own
}

// recipeFiles are the programs that recipes run, and files that they read. Those in bin
// stand for what is on a machine.
var recipeFiles = map[string]string{
	"deploy":      `#!/bin/sh`,
	"deploy.sh":   `#!/bin/sh`,
	"sync":        `#!/bin/sh`,
	"job":         `#!/bin/sh`,
	"build":       `#!/bin/sh`,
	"load":        "#!/bin/sh\n[ $1 = --fence ] && [ $2 -gt 0 ]",
	"check":       `#!/bin/sh`,
	"events.json": `{"type":"a"} {"type":"b"}`,
	"src/file":    "text",
	"dst/file":    "text",
	"data/file":   "text",
	"bin/rsync":   "#!/bin/sh\n[ -d $2 ] && [ -d $3 ]",
	"bin/retry":   `#!/bin/sh`,
	"bin/sleep":   "#!/bin/sh\n[ ! -e slept ] && : >slept", // once
}

// TestRecipes runs what help and README show, as it is pasted.
func TestRecipes(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil || runtime.GOOS == "windows" {
		t.Skip("needs sh, to run what help and README show")
	}
	readme, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "README.md"))
	testkit.Check(t, err)
	blocks := shellBlocks(string(readme))
	if len(blocks) < 4 {
		t.Fatalf("%d shell blocks found in the README", len(blocks))
	}
	all := slices.Concat(blocks...)
	for i, block := range blocks {
		t.Run(fmt.Sprintf("README %d", i+1), func(t *testing.T) {
			dir := recipeFolder(t) // one for all of a block: each line goes on from the last
			for _, recipe := range block {
				t.Run(recipe, func(t *testing.T) { runRecipe(t, dir, recipe) })
			}
		})
	}
	for _, c := range allCommands() {
		if c.Example == "" {
			continue
		}
		recipes := strings.Split(c.Example, "\n")
		all = append(all, recipes...)
		for _, recipe := range recipes {
			t.Run(recipe, func(t *testing.T) {
				dir := recipeFolder(t)
				if before := beginning(recipeNeeds, recipe); before != "" {
					if stderr, err := shell(t, dir, before); err != nil {
						t.Fatal(before, err, stderr)
					}
				}
				runRecipe(t, dir, recipe)
			})
		}
	}
	for _, list := range []map[string]string{notRun, recipeNeeds, recipeSays} {
		for begins := range list {
			if !slices.ContainsFunc(all, func(recipe string) bool { return strings.HasPrefix(recipe, begins) }) {
				t.Errorf("%q is listed, and no recipe begins so", begins)
			}
		}
	}
}

// beginning returns what a list has for a recipe, by how it begins; "" if nothing.
func beginning(list map[string]string, recipe string) string {
	for begins, what := range list {
		if strings.HasPrefix(recipe, begins) {
			return what
		}
	}
	return ""
}

func runRecipe(t *testing.T, dir, recipe string) {
	if why := beginning(notRun, recipe); why != "" {
		t.Logf("not run: it %s", why)
		return
	}
	for _, need := range []string{"jq", "go"} {
		uses := strings.Contains(recipe, need+" ") || need == "go" && strings.HasPrefix(recipe, "sh tests/")
		if _, err := exec.LookPath(need); err != nil && uses {
			t.Skipf("needs %s, to run %s", need, recipe)
		}
	}
	if strings.HasPrefix(recipe, "sh tests/") {
		var err error
		if dir, err = filepath.Abs(filepath.Join("..", "..", "..", "..")); err != nil {
			t.Fatal(err)
		}
	}
	stderr, err := shell(t, dir, recipe)
	var exit *exec.ExitError
	if strings.HasPrefix(recipe, "holdfast doctor ") && errors.As(err, &exit) && exit.ExitCode() == exitWeaker {
		err = nil // TMPDIR is on a filesystem that is not trusted
	}
	says := beginning(recipeSays, recipe)
	if err != nil || strings.Contains(stderr, "holdfast: ") != (says != "") || !strings.Contains(stderr, says) {
		t.Errorf("%s\n%v; it said:\n%s", recipe, err, stderr)
	}
}

// shellBlocks are the blocks of shell in a text of Markdown: those marked sh, and those
// that are indented and not within another.
func shellBlocks(text string) (blocks [][]string) {
	var block []string
	fence := ""
	for line := range strings.Lines(text + "\n") {
		line = strings.TrimRight(line, "\n")
		switch recipe, indented := strings.CutPrefix(line, "    "); {
		case fence == "" && strings.HasPrefix(line, "```"):
			fence = line
		case fence == "" && indented:
			block = append(block, recipe)
			continue
		case fence == "```sh" && line != "```":
			if line != "" && !strings.HasPrefix(line, "#") {
				block = append(block, line)
			}
			continue
		case line == "```":
			fence = ""
		}
		if len(block) > 0 {
			blocks = append(blocks, block)
			block = nil
		}
	}
	return blocks
}

func TestShellBlocks(t *testing.T) {
	got := shellBlocks("text\n\n    one\n    two\n\n```go\n    no\n```\n```sh\nthree   # c\n\n# c\nfour\n```\n```\nno\n```\n    five\n")
	want := [][]string{{"one", "two"}, {"three   # c", "four"}, {"five"}}
	if !slices.EqualFunc(got, want, slices.Equal[[]string]) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// recipeFolder makes a folder that has what recipes need, and this holdfast in bin.
func recipeFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range recipeFiles {
		path := filepath.Join(dir, name)
		testkit.Check(t, os.MkdirAll(filepath.Dir(path), 0o700))
		testkit.Check(t, os.WriteFile(path, []byte(text+"\n"), 0o700))
	}
	exe, err := os.Executable()
	testkit.Check(t, err)
	testkit.Check(t, os.Symlink(exe, filepath.Join(dir, "bin", "holdfast")))
	return dir
}

// shell runs a line of shell in a folder of recipes.
func shell(t *testing.T, dir, line string) (stderr string, err error) {
	t.Helper()
	like := child(t)
	cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
	cmd.Dir = dir
	// GOFLAGS: whose the repository is, by which Go judges git's, is not what is tested.
	cmd.Env = append(like.Env, "GOFLAGS=-buildvcs=false", "PATH="+filepath.Join(dir, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"))
	var said strings.Builder
	cmd.Stderr = &said
	cmd.WaitDelay = patience
	err = cmd.Run()
	return said.String(), err
}
