package command

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
)

// TestRun_OneLock: of a command that has a "--" of its own, no word is taken for a lock, and
// what follows the "--" is not run here.
func TestRun_OneLock(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, mark := range [][]string{nil, {"--"}} {
		stdout, _ := wantCode(t, exitOK, slices.Concat([]string{"run", "x.lock"}, mark, role(t, "args", "pod", "--", "sh", "-c", "echo ran here"))...)
		if stdout != "pod|--|sh|-c|echo ran here\n" {
			t.Errorf("the command has the words %s", stdout)
		}
		if got := testkit.Names(t, dir); got != "x.lock.flock" {
			t.Errorf("it took %s, want x.lock alone", got)
		}
	}
}

// parseRun reads the words behind "holdfast run".
func parseRun(args []string) (*runOptions, error) {
	a := &app{}
	c, o := a.runCommand(a.root())
	if err := c.ParseFlags(args); err != nil {
		return o, err
	}
	return o, o.read(c, c.Flags().Args())
}

// TestRunArgs: what is a lock, what the command, and which lines mean nothing that could be
// meant.
func TestRunArgs(t *testing.T) {
	t.Chdir(t.TempDir())
	bin := filepath.Join(t.TempDir(), "bin")
	testkit.Check(t, os.Mkdir(bin, 0o700))
	t.Setenv("PATH", bin)
	t.Setenv("SHELL", "")
	program := "kubectl"
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	testkit.Check(t, os.WriteFile(filepath.Join(bin, program), []byte("#!/bin/sh\n"), 0o700))
	write(t, "deploy.sh", "#!/bin/sh\n")
	write(t, "held.lock", foreign)
	for _, test := range []struct{ line, locks, command string }{
		{"x.lock c", "x.lock", "c"},
		{"x.lock -- c", "x.lock", "c"},
		{"x.lock kubectl exec pod -- sh -c rm", "x.lock", "kubectl exec pod -- sh -c rm"},
		{"x.lock -- git checkout -- file", "x.lock", "git checkout -- file"},
		{"x.lock c --try", "x.lock", "c --try"},
		{"--try x.lock -- -c", "x.lock", "-c"},
		{"x.lock -- b.lock", "x.lock", "b.lock"},
		{"--also y.lock x.lock c", "x.lock y.lock", "c"},
		{"--also y.lock --also z.lock x.lock -- c -- d", "x.lock y.lock z.lock", "c -- d"},
		{"./kubectl c", "./kubectl", "c"},
		{"held.lock c", "held.lock", "c"},
		{"new c", "new", "c"},
		{"-nsE3 -o x.lock -- -c d", "x.lock", "-c d"},
		{"--nonblock --conflict-exit-code=3 x.lock -c exit", "x.lock", "/bin/sh -c exit"},
		{"--wait 1.5 x.lock --command exit", "x.lock", "/bin/sh -c exit"},
	} {
		o, err := parseRun(strings.Fields(test.line))
		if err != nil || strings.Join(o.locks, " ") != test.locks || strings.Join(o.command, " ") != test.command {
			t.Errorf("%q: locks %q, command %q, %v", test.line, o.locks, o.command, err)
		}
	}
	for line, says := range map[string]string{
		"":                              "LOCK is missing",
		"--try":                         "LOCK is missing",
		"--also x.lock":                 "LOCK is missing",
		"-- x.lock c":                   `LOCK is missing before "--"`,
		"-- make all":                   `LOCK is missing before "--"`,
		"--also x.lock -- c":            `LOCK is missing before "--"`,
		"--also x.lock -- y.lock":       `LOCK is missing before "--"`,
		"x.lock -c echo 1":              "-c wants one argument",
		"x.lock":                        "there is no command to run",
		"x.lock --":                     `there is no command behind "--"`,
		"x.lock -- --":                  `the command can't be "--"`,
		"x.lock -- -- c":                `the command can't be "--"`,
		"x.lock --try c":                "flags go before LOCK: --try",
		"x.lock y.lock -- c":            "y.lock is no command; a further lock goes before LOCK: --also y.lock",
		"kubectl exec pod -- rm":        "kubectl is a program; is LOCK missing before it? (A lock file of that name is ./kubectl)",
		"--also x.lock kubectl get":     "kubectl is a program; is LOCK missing",
		"./deploy.sh production":        "./deploy.sh is a program, and no lock file; is LOCK missing",
		"--also --try x.lock c":         "--also wants a further LOCK, and not --try",
		"--also . x.lock c":             ". is a folder",
		"--permits 2 --also y x.lock c": "--permits and --also exclude each other",
	} {
		if _, err := parseRun(strings.Fields(line)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %s", line, err, says)
		}
	}
	for _, args := range [][]string{{"", "c"}, {"--also", "", "x.lock", "c"}, {"x.lock", ""}, {"x.lock", "--", ""}} {
		if _, err := parseRun(args); err == nil || !strings.Contains(err.Error(), "is empty") {
			t.Errorf("%q: %v", args, err)
		}
	}
	if got := testkit.Names(t, "."); got != "deploy.sh held.lock" {
		t.Errorf("there are %s by now", got)
	}
}

// TestRun_NotRun: a command that can't be run has done nothing under the lock, so the next one
// learns of the holder before.
func TestRun_NotRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.lock")
	dieHolding(t, path)
	wantCode(t, exitNotFound, "run", path, "no-such-command-here")
	stdout, _ := wantCode(t, exitOK, append([]string{"run", path}, role(t, "predecessor")...)...)
	wantText(t, stdout, `"cmd":"the holder"`, `"how":"died"`)
}
