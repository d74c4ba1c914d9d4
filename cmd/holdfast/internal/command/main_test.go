package command

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/holdfast-go/holdfast/internal/testkit"
)

// mainVar has the test binary be holdfast instead of running tests. Beneath it,
// the command testCommand plays the commands that holdfast runs.
const (
	mainVar     = "HOLDFAST_TEST_MAIN"
	testCommand = "test-command"
	// falseKeeperVar is a lock, of which the command keeperName is then a keeper that dies of
	// what it is asked.
	falseKeeperVar = "HOLDFAST_TEST_FALSE_KEEPER"
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(mainVar) == "":
		os.Exit(testkit.Run(m))
	case os.Getenv(falseKeeperVar) != "" && os.Args[1] == keeperName:
		os.Exit(roles["owned"]([]string{os.Getenv(falseKeeperVar)}))
	case len(os.Args) > 2 && os.Args[1] == testCommand:
		os.Exit(roles[os.Args[2]](os.Args[3:]))
	}
	Main()
}

// roles are what the command under the lock can be.
var roles = map[string]func(args []string) int{
	"exit": func(args []string) int {
		code := 0
		fmt.Sscan(args[0], &code)
		return code
	},
	"env": func([]string) int {
		fmt.Println(os.Getenv(lockVar))
		fmt.Println(os.Getenv(fenceVar))
		return 0
	},
	"args": func(args []string) int {
		fmt.Println(strings.Join(args, "|"))
		return 0
	},
	"predecessor": func([]string) int {
		fmt.Println(os.Getenv(predecessorVar))
		return 0
	},
	"stderr": func([]string) int {
		fmt.Fprintln(os.Stderr, "to stderr")
		return 0
	},
	// hold says that it runs, and ends when its input does.
	"hold": func([]string) int {
		fmt.Println("ready")
		io.Copy(io.Discard, os.Stdin)
		return 0
	},
	"signals": signalsRole,
	// pid says which process it is, and ends when its input does.
	"pid": func([]string) int {
		fmt.Println(os.Getpid())
		io.Copy(io.Discard, os.Stdin)
		return 0
	},
	// stuck says that it runs, and does not end.
	"stuck": func([]string) int {
		fmt.Println("ready")
		return forever()
	},
	"killself": func([]string) int {
		self, _ := os.FindProcess(os.Getpid())
		self.Kill()
		return forever()
	},
}

// forever outlasts every test, and yet leaves no process for good when one fails.
func forever() int {
	time.Sleep(2 * patience)
	return endedByItself
}

const endedByItself = 97

// role is the command line by which holdfast runs a role.
func role(t *testing.T, name string, args ...string) []string {
	t.Helper()
	exe, err := os.Executable()
	testkit.Check(t, err)
	return append([]string{exe, testCommand, name}, args...)
}

// holdLock has a holdfast hold a lock until its input ends.
func holdLock(t *testing.T, path string) *process {
	t.Helper()
	p := start(t, append([]string{"run", "--label", "the holder", path, "--"}, role(t, "hold")...)...)
	p.expect("ready")
	return p
}

// dieHolding leaves the lock file of a holder that was killed.
func dieHolding(t *testing.T, path string) {
	t.Helper()
	p := holdLock(t, path)
	p.cmd.Process.Kill()
	p.finish()
}

// write puts a file by hand.
func write(t *testing.T, path, text string) {
	t.Helper()
	testkit.Check(t, os.WriteFile(path, []byte(text), 0o600))
}

// foreign is the claim of another machine, of which nothing can be known.
const foreign = `{"pid":42,"created_at":"2999-01-15T10:30:00Z","cmd":"far away","nonce":"N0NCE","hostname":"elsewhere","boot_id":"b"}`

func wantFile(t *testing.T, path string, want bool) {
	t.Helper()
	if _, err := os.Lstat(path); (err == nil) != want {
		t.Errorf("%s: %v; want it there: %v", path, err, want)
	}
}

// wantClean fails for a text that could do something to a terminal.
func wantClean(t *testing.T, text string) {
	t.Helper()
	for _, r := range text {
		if r != '\n' && !unicode.IsPrint(r) {
			t.Errorf("%U reaches the terminal in:\n%q", r, text)
			return
		}
	}
}

// wantText fails unless text has all the parts.
func wantText(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in:\n%s", part, text)
		}
	}
}

func wantNoText(t *testing.T, text, part string) {
	t.Helper()
	if strings.Contains(text, part) {
		t.Errorf("%q is in:\n%s", part, text)
	}
}
