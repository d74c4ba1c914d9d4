package command

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/spf13/cobra"
)

// exitCodes are those that a command's manual gives it.
func exitCodes(c *cobra.Command) (codes []int) {
	for _, number := range regexp.MustCompile(`\b\d+\b`).FindAllString(c.Annotations[codesOf], -1) {
		code, _ := strconv.Atoi(number)
		codes = append(codes, code)
	}
	return codes
}

// FuzzCommandLine: whatever line follows "holdfast", it ends with an exit code that the
// manual of its command has. Wrong use is told on standard error alone, in words that a
// terminal can be shown, and nothing has been touched.
func FuzzCommandLine(f *testing.F) {
	for _, c := range allCommands() {
		words := strings.ReplaceAll(strings.TrimPrefix(c.CommandPath(), "holdfast "), " ", "\n")
		for _, rest := range []string{"", "\n-json\nfree", "\ndead", "\n--\n-x", "\n-owner\na\nproof\n1", "\n-timeout=-1s\nfree\n--\nx"} {
			f.Add(words + rest)
		}
	}
	for _, line := range []string{"", "\x1b[31m", "ledger", "claim\nfetch", "run\nfree\n--\nx", "run\n-try\n-timeout\n1s\nfree\n--\nx", "run\ndead\n--\nx",
		"run\n-conflict-exit-code\n300\nfree\n--\nx", "run\n-mode\n999\nfree\n--\nx", "ledger\nappend\nproof\n{", "ledger\nappend\n-if-sequence\n9\nproof\n{}",
		"break\n-force\nx\ndead", "help\nno\nsuch", "tidy\n-older\n-1h\nfolder", "status\n-pg\nx\ny", "list\n-waiting\nabsent"} {
		f.Add(line)
	}
	top := f.TempDir()
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, "\n")
		if len(args) > 20 || strings.ContainsAny(line, "/\x00") || slices.Contains(args, "..") {
			return // nowhere but in the test's folder
		}
		c, rest, err := new(app).root().Find(args)
		if c.Hidden || strings.HasPrefix(args[0], "__comp") || strings.Contains(line, "etcd") {
			return // not for people, or about a server
		} else if err == nil && (slices.Contains([]string{"serve", "watch", "hold", "doctor"}, c.Name()) || strings.Contains(line, "every")) {
			// They last, or start processes. What is of interest is what comes before that, so
			// their flags are followed by wrong ones.
			rest = slices.DeleteFunc(slices.Clone(rest), func(arg string) bool { return len(arg) < 2 || arg[0] != '-' || arg == "--" })
			args = slices.Concat(strings.Fields(c.CommandPath())[1:], rest, []string{"--no-such-flag", "--no-such-flag"})
		}
		dir := filepath.Join(top, "here")
		defer os.RemoveAll(dir)
		claim := `{"pid":2147483646,"created_at":"2001-01-15T10:30:00Z"}` // nobody waits for the dead
		for name, text := range map[string]string{"dead": claim, "folder/dead.lock": claim, "proof/ledger/event-000001.json": "{}"} {
			testkit.Check(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
			write(t, filepath.Join(dir, name), text)
		}
		t.Chdir(dir)
		for name, value := range map[string]string{"PATH": "", "HOME": dir, "TMPDIR": dir, "XDG_RUNTIME_DIR": dir, lockVar: "", heldVar: ""} {
			t.Setenv(name, value)
		}
		before := allBelow(t, dir)
		var stdout, stderr strings.Builder
		a := &app{stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr}
		if line == "" {
			args = nil
		}
		code := a.main(args)
		codes := []int{exitUsage}
		if len(args) > 0 {
			codes = append(exitCodes(c), exitOK, exitUsage)
		}
		if !slices.Contains(codes, code) && !strings.Contains(line, "conflict-exit-code") {
			t.Errorf("%q: exit code %d, want one of %v; %s", args, code, codes, stderr.String())
		}
		if said := stderr.String(); strings.ContainsFunc(said, func(r rune) bool { return r < ' ' && r != '\n' || r == '\x7f' || r == '\u202e' }) {
			t.Errorf("%q: %q", args, said)
		}
		if code != exitUsage {
			return
		}
		if stdout.Len() > 0 || stderr.Len() == 0 {
			t.Errorf("%q: wrong use, and it says %q, and %q", args, stdout.String(), stderr.String())
		}
		if after := allBelow(t, dir); !maps.Equal(before, after) {
			t.Errorf("%q: wrong use (%s) made %v of %v", args, stderr.String(), after, before)
		}
	})
}

// allBelow is all that lies below a folder.
func allBelow(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	testkit.Check(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			all[path] = "a folder"
			return err
		}
		data, err := os.ReadFile(path)
		all[path] = string(data)
		return err
	}))
	return all
}
