package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/spf13/cobra"
)

// says runs holdfast in this process.
func says(t *testing.T, want int, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &errs}
	if code := a.main(args); code != want {
		t.Fatalf("holdfast %q: exit code %d, want %d; it says %s%s", args, code, want, out.String(), errs.String())
	}
	return out.String(), errs.String()
}

// allCommands are those for people, and holdfast itself.
func allCommands() (all []*cobra.Command) {
	var below func(c *cobra.Command)
	below = func(c *cobra.Command) {
		all = append(all, c)
		for _, s := range c.Commands() {
			if !s.Hidden {
				below(s)
			}
		}
	}
	below((&app{}).root())
	return all
}

// TestHelp: each command has a line in that of the one above, and a screen of its own, which has
// all that there is to say of how it is called, by either way to ask for it. A manual page says
// more.
func TestHelp(t *testing.T) {
	dir := t.TempDir()
	says(t, exitOK, "man", dir)
	for _, c := range allCommands() {
		words := strings.Fields(c.CommandPath())[1:]
		screen, _ := says(t, exitOK, append([]string{"help"}, words...)...)
		if other, _ := says(t, exitOK, append(words, "-h")...); other != screen {
			t.Errorf("holdfast %s -h differs from holdfast help %[1]s", words)
		}
		lines := strings.Split(strings.TrimSuffix(screen, "\n"), "\n")
		if len(lines) > 32 {
			t.Errorf("help of %q has %d lines", words, len(lines))
		}
		for _, line := range lines {
			if utf8.RuneCountInString(line) > 80 {
				t.Errorf("help of %q has a line of %d columns: %s", words, utf8.RuneCountInString(line), line)
			}
		}
		wantText(t, screen, "usage: "+c.UseLine(), wrapped("exit codes: "+c.Annotations[codesOf]))
		if c.HasParent() {
			above, _ := says(t, exitOK, append([]string{"help"}, words[:len(words)-1]...)...)
			wantText(t, above, c.Name(), c.Short)
		}
		page, err := os.ReadFile(filepath.Join(dir, strings.ReplaceAll(c.CommandPath(), " ", "-")+".1"))
		if c.Name() != "help" {
			testkit.Check(t, err)
			wantText(t, string(page), ".SH EXIT CODES", ".SH DESCRIPTION")
		}
	}
}

// TestMisuse is told in a line, with where to look.
func TestMisuse(t *testing.T) {
	for line, want := range map[string]string{
		"run -try x.lock true":           "run: -try has two dashes: --try\n",
		"run -shared x.lock true":        "run: -shared has two dashes: --shared\n",
		"run --label -try -n x.lock -nb": "run: flags go before LOCK: -nb\n",
		"hold -timeout=1 x.lock":         "hold: -timeout has two dashes: --timeout\n",
		"run --tri x.lock true":          "run: unknown flag --tri; did you mean \"--try\"?\n",
		"run -w":                         "run: flag needs an argument: 'w' in -w\n",
		"run -w 1x a.lock true":          "it is no span of time, such as 90, 10m, 1h30m or 7d\n",
		"run -c true":                    "run: -c goes behind LOCK: holdfast run LOCK -c 'COMMAND LINE'\n",
		"run 9":                          "run: 9 is a descriptor for flock(1); here LOCK is a path",
		"run -n -w 1 a.lock true":        "run: --try and --timeout exclude each other\n",
		"run --mode 644 a.lock true":     "it is none for a lock file: 600 is for one user",
		"stauts x.lock":                  "stauts is not a command of holdfast; did you mean \"holdfast status\"?\n",
		"ledger apend":                   "ledger apend is not a command of holdfast; did you mean \"holdfast ledger append\"?\n",
		"ledger":                         "ledger alone is not a command of holdfast\n",
		"x.lock -- true":                 "x.lock is not a command of holdfast; to hold a lock for one: holdfast run LOCK COMMAND...\n",
		"status --pg x y.lock":           "is no name of a lock in a database",
		"status --etcd= a/b":             "--etcd wants HOST:PORT",
	} {
		t.Run(line, func(t *testing.T) {
			t.Setenv("ETCDCTL_ENDPOINTS", "")
			stdout, stderr := says(t, exitUsage, strings.Fields(line)...)
			wantText(t, stderr, want, "holdfast: ", "\n  \"holdfast help")
			if stdout != "" || strings.Count(stderr, "\n") != 2 {
				t.Errorf("it says %q, and on standard error\n%s", stdout, stderr)
			}
		})
	}
}

func TestSpan(t *testing.T) {
	for text, want := range map[string]time.Duration{"0": 0, "1.5": 1500 * time.Millisecond, "90": 90 * time.Second, "1h30m": 90 * time.Minute, "1d": 24 * time.Hour, "0.5d": 12 * time.Hour} {
		if got, err := span(text); got != want || err != nil {
			t.Errorf("%q is %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "-1", "-1s", "x", "inf", "nan", "1e300", "1e300d", "0x1p40", "999999999999", "1dd", "d"} {
		if got, err := span(text); err == nil {
			t.Errorf("%q is %s", text, got)
		}
	}
}

// TestComplete: LOCK is completed to the locks in a folder, with who has them.
func TestComplete(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	write(t, "far.lock", foreign)
	write(t, "yarn.lock", "# yarn lockfile v1\n")
	write(t, "text", "")
	wantCode(t, exitOK, append([]string{"run", "used.lock"}, role(t, "exit", "0")...)...)
	for line, want := range map[string]string{
		"status ": "far.lock\tunknown: pid 42 on elsewhere: far away\nused.lock\tfree\n:0\n", "run u": "used.lock\tfree\n:0\n",
		"run far.lock ": ":0\n", "list --w": "--waiting\talso the waiters of each, in their order\n:4\n",
	} {
		words := strings.Split(line, " ")
		if got, _ := says(t, exitOK, append([]string{cobra.ShellCompRequestCmd}, words...)...); !strings.HasPrefix(got, want) {
			t.Errorf("of %q it makes\n%s", line, got)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if script, _ := says(t, exitOK, "completion", shell); len(script) < 1000 {
			t.Errorf("for %s: %s", shell, script)
		}
	}
}
