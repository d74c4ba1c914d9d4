package command

import (
	"context"
	"strings"
	"testing"
)

// TestHelp: each command has a line in the overview, and a manual that is complete, by
// either way to ask for it. What a program with -pg says has more.
func TestHelp(t *testing.T) {
	t.Run("files", func(t *testing.T) { testHelp(t, nil) })
	t.Run("databases", func(t *testing.T) {
		testHelp(t, func(context.Context, string, string) (Database, error) { panic("opened") })
	})
}

func testHelp(t *testing.T, open Open) {
	says := func(args ...string) string {
		t.Helper()
		var stdout, stderr strings.Builder
		a := &app{open: open, stdout: &stdout, stderr: &stderr}
		if code := a.main(args); code != exitOK || stderr.Len() > 0 {
			t.Fatalf("holdfast %q: exit code %d, and it says %s", args, code, stderr.String())
		}
		return stdout.String()
	}
	all := says("help")
	for _, c := range commands() {
		if c.summary == "" {
			wantNoText(t, all, c.name) // it is not for people
			continue
		}
		wantText(t, all, c.name, c.summary)
		words := strings.Fields(c.name)
		manual := says(append([]string{"help"}, words...)...)
		wantText(t, manual, c.synopsis)
		if has := strings.Contains(manual, "-pg CONNSTRING"); has != (open != nil && c.database != databaseHelp{}) {
			t.Errorf("of -pg in holdfast help %s: %v", c.name, has)
		}
		if strings.Contains(c.synopsis, "LOCK") || strings.Contains(c.synopsis, "DIR") {
			wantText(t, manual, "exit codes", "example")
		}
		if got := says(append(words, "-h")...); got != manual {
			t.Errorf("holdfast %s -h differs from holdfast help %[1]s", c.name)
		}
	}
}
