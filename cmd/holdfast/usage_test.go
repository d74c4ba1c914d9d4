package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

func TestWrongUse(t *testing.T) {
	dir := t.TempDir()
	l := filepath.Join(dir, "l")
	for _, c := range []struct {
		args []string
		hint string
	}{
		{nil, "usage:"},
		{[]string{"stauts", l}, `"holdfast help" lists them`},
		{[]string{l, "--", "true"}, "holdfast run LOCK -- COMMAND"},
		{[]string{"run"}, "LOCK is missing"},
		{[]string{"run", l}, "no command"},
		{[]string{"run", l, "--"}, "no command"},
		{[]string{"run", l, "true"}, `"--"`},
		{[]string{"run", l, "-try", "--", "true"}, "flags go before LOCK"},
		{[]string{"run", "-try", "-timeout", "1s", l, "--", "true"}, "exclude each other"},
		{[]string{"run", "-timeout", "-1s", l, "--", "true"}, "negative"},
		{[]string{"run", "-timeout", "10", l, "--", "true"}, "flag -timeout: it has no unit; did you mean 10s, or 10m?"},
		{[]string{"run", "-timeout", "1.5", l, "--", "true"}, "did you mean 1.5s"},
		{[]string{"run", "-timeout", "soon", l, "--", "true"}, "no span of time, such as 90s"},
		{[]string{"run", "-timeout", "nan", l, "--", "true"}, "no span of time, such as 90s"},
		{[]string{"run", "-timout", "10s", l, "--", "true"}, "did you mean -timeout?"},
		{[]string{"run", "--lable=x", l, "--", "true"}, "did you mean -label?"},
		{[]string{"run", "-conflict", "1", l, "--", "true"}, "did you mean -conflict-exit-code?"},
		{[]string{"run", l, l + "2", "--", "true"}, "one LOCK is wanted before \"--\", not 2 (" + l + " " + l + "2); to hold several, nest them"},
		{[]string{"run", l, l, l, "--", "true"}, "not 3"},
		{[]string{"statsu", l}, `did you mean "holdfast status"?`},
		{[]string{"stat", l}, `did you mean "holdfast status"?`},
		{[]string{"legder", "apend", dir, "1"}, `did you mean "holdfast ledger append"?`},
		{[]string{"ledger", "apend", dir, "1"}, `ledger apend is not a command of holdfast; did you mean "holdfast ledger append"?`},
		{[]string{"claims", "list", dir}, `did you mean "holdfast claim list"?`},
		{[]string{"help", "dcotor"}, `did you mean "holdfast doctor"?`},
		{[]string{"status", "-jsno", l}, "did you mean -json?"},
		{[]string{"ledger", "append", "-timeout", "5", dir, "1"}, "did you mean 5s"},
		{[]string{"claim", "list", "-skew", "5", dir}, "did you mean 5s"},
		{[]string{"claim", "reap", "-every", "30", dir}, "did you mean 30s"},
		{[]string{"run", "-bogus", l, "--", "true"}, "-bogus"},
		{[]string{"run", "", "--", "true"}, "empty"},
		{[]string{"run", dir + "/", "--", "true"}, "folder"},
		{[]string{"run", l + ".flock", "--", "true"}, "suffix"},
		{[]string{"status"}, "LOCK is missing"},
		{[]string{"status", l, "-json"}, "flags go before LOCK"},
		{[]string{"status", l, l}, "one LOCK"},
		{[]string{"status", ""}, "empty"},
		{[]string{"list"}, "DIR is missing"},
		{[]string{"list", dir, dir}, "one DIR"},
		{[]string{"break"}, "LOCK is missing"},
		{[]string{"break", "-force", l}, "LOCK is missing"},
		{[]string{"break", "-force", "", l}, "nonce"},
		{[]string{"doctor"}, "DIR is missing"},
		{[]string{"ledger"}, "holdfast ledger append"},
		{[]string{"ledger", "bogus"}, "ledger bogus is not a command"},
		{[]string{"ledger", "append"}, "DIR is missing"},
		{[]string{"ledger", "append", dir}, "no EVENT"},
		{[]string{"ledger", "append", dir, "{"}, "not JSON"},
		{[]string{"ledger", "append", "-if-sequence", "-1", dir, "1"}, "negative"},
		{[]string{"ledger", "append", "-timeout", "-1s", dir, "1"}, "negative"},
		{[]string{"ledger", "append", "-prefix", "a/b", dir, "1"}, "prefix"},
		{[]string{"ledger", "append", "", "1"}, "not named"},
		{[]string{"ledger", "read", "-after", "-1", dir}, "negative"},
		{[]string{"ledger", "read", dir, dir}, "one DIR"},
		{[]string{"ledger", "head"}, "DIR is missing"},
		{[]string{"claim", "take", dir, "1"}, "-owner is missing"},
		{[]string{"claim", "take", "-owner", "me", dir}, "DIR and NODE"},
		{[]string{"claim", "take", "-owner", "me", dir, "../1"}, "node id"},
		{[]string{"claim", "release", "-owner", "a\nb", dir, "1"}, "owner"},
		{[]string{"claim", "refresh", "-owner", "me", "", "1"}, "not named"},
		{[]string{"claim", "list", "-skew", "-1s", dir}, "negative"},
		{[]string{"claim", "reap", "-every", "0", dir}, "no interval"},
		{[]string{"serve"}, "DIR is missing"},
		{[]string{"serve", "-addr", "8420", dir}, "neither HOST:PORT nor"},
		{[]string{"serve", "-addr", "unix:", dir}, "path of the socket"},
		{[]string{"serve", dir, "-json"}, "flags go before DIR"},
		{[]string{"serve", "-bogus", dir}, "-bogus"},
		{[]string{"help", "claim", "x"}, "not a command"},
		{[]string{"version", "x"}, "no arguments"},
		{[]string{"help", "x"}, "lists them"},
		{[]string{"help", "run", "run"}, "one COMMAND"},
	} {
		stdout, stderr := wantCode(t, exitUsage, c.args...)
		if stdout != "" {
			t.Errorf("%q: standard output is not for messages: %s", c.args, stdout)
		}
		wantText(t, stderr, c.hint)
	}
	if got := names(t, dir); got != "" {
		t.Errorf("wrong use left behind: %s", got)
	}
}

func TestHelp(t *testing.T) {
	all, _ := wantCode(t, exitOK, "help")
	for _, flag := range []string{"-h", "-help", "--help"} {
		if got, _ := wantCode(t, exitOK, flag); got != all {
			t.Errorf("holdfast %s differs from holdfast help", flag)
		}
	}
	for _, c := range commands() {
		if c.summary == "" {
			if strings.Contains(all, c.name) {
				t.Errorf("%s is not for people, and shown", c.name)
			}
			continue
		}
		wantText(t, all, c.name, c.summary)
		words := strings.Fields(c.name)
		manual, _ := wantCode(t, exitOK, append([]string{"help"}, words...)...)
		wantText(t, manual, c.synopsis)
		if strings.Contains(c.synopsis, "LOCK") || strings.Contains(c.synopsis, "DIR") {
			wantText(t, manual, "exit codes", "example")
		}
		if got, _ := wantCode(t, exitOK, append(words, "-h")...); got != manual {
			t.Errorf("holdfast %s -h differs from holdfast help %[1]s", c.name)
		}
	}
	version, _ := wantCode(t, exitOK, "version")
	wantText(t, version, "holdfast ", "go1.")
	line, _ := wantCode(t, exitOK, "version", "-json")
	var v struct{ Version, Go, OS, Arch string }
	if err := json.Unmarshal([]byte(line), &v); err != nil {
		t.Fatal(err)
	}
	if again := fmt.Sprintf("holdfast %s %s %s/%s\n", v.Version, v.Go, v.OS, v.Arch); again != version {
		t.Errorf("version says %s, and version -json %s", version, line)
	}
}
