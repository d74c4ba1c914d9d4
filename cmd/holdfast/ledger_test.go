package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock/claims"
)

// pipe runs holdfast with a text on its standard input.
func pipe(t *testing.T, text string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	p := start(t, args...)
	if _, err := io.WriteString(p.stdin, text); err != nil {
		t.Fatal(err)
	}
	return p.finish()
}

func TestLedger(t *testing.T) {
	dir := t.TempDir()
	want := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	out, _ := wantCode(t, exitOK, "ledger", "head", dir)
	want(out, `{"sequence":0}`+"\n")
	out, _ = wantCode(t, exitOK, "ledger", "append", "-agent", "me", dir, `{"n":1}`, `2`)
	want(out, `{"sequence":2}`+"\n")
	code, out, stderr := pipe(t, "{\"n\":3}\n[4, \"\u202e\"] 5", "ledger", "append", dir)
	if code != exitOK {
		t.Fatal(code, stderr)
	}
	want(out, `{"sequence":5}`+"\n")
	out, _ = wantCode(t, exitOK, "ledger", "append", "-if-sequence", "5", dir, `6`)
	want(out, `{"sequence":6}`+"\n")
	out, _ = wantCode(t, exitOK, "ledger", "read", "-after", "2", dir)
	want(out, `{"sequence":3,"event":{"n":3}}
{"sequence":4,"event":[4,"\u202e"]}
{"sequence":5,"event":5}
{"sequence":6,"event":6}
`)
	_, stderr = wantCode(t, exitMovedOn, "ledger", "append", "-if-sequence", "5", dir, `7`)
	wantText(t, stderr, "sequence 6, not 5")
	before := snapshot(t, dir)
	_, stderr = wantCode(t, exitUsage, "ledger", "append", dir, `8`, `{"half":`)
	wantText(t, stderr, "event 2 of 2", "JSON")
	if snapshot(t, dir) != before {
		t.Error("a refused event changed something")
	}
	before = names(t, filepath.Join(dir, "ledger"))
	for _, args := range [][]string{{"append", "-prefix", "", dir, "1"}, {"read", "-prefix", "x", dir}, {"read", "-prefix", "x", "-after", "3", dir}, {"head", "-prefix", "x", dir}} {
		_, stderr = wantCode(t, exitUsage, append([]string{"ledger"}, args...)...)
		wantText(t, stderr, `begin with "event-"`)
	}
	if names(t, filepath.Join(dir, "ledger")) != before {
		t.Error("a second ledger changed something")
	}
	// What another hand began is nothing that belongs there.
	write(t, filepath.Join(dir, "ledger", "000001.json"), "1")
	_, stderr = wantCode(t, exitUsage, "ledger", "append", dir, "7")
	wantText(t, stderr, `several prefixes: "event-" and ""`)
	_, stderr = wantCode(t, exitError, "ledger", "read", "-prefix", "event-", dir)
	wantText(t, stderr, "000001.json", "damaged")
	if err := os.Rename(filepath.Join(dir, "ledger", "000001.json"), filepath.Join(dir, "ledger", "x.json")); err != nil {
		t.Fatal(err)
	}
	out, stderr = wantCode(t, exitError, "ledger", "read", dir)
	wantText(t, stderr, "x.json", "damaged")
	wantText(t, out, `{"sequence":6,"event":6}`)
	wantCode(t, exitOK, "ledger", "append", filepath.Join(dir, "new"), `1`)
	_, stderr = wantCode(t, exitError, "ledger", "append", filepath.Join(dir, "absent", "new"), `1`)
	wantText(t, stderr, "absent", "make it first")
	for _, args := range [][]string{{"ledger", "read"}, {"ledger", "head"}, {"claim", "list"}} {
		_, stderr = wantCode(t, exitError, append(args, filepath.Join(dir, "absent"))...)
		wantText(t, stderr, "there is no ledger in "+filepath.Join(dir, "absent"))
	}
}

// TestLedger_Locked: a lock that is a directory, as a shell makes it, is waited for,
// and somebody else's.
func TestLedger_Locked(t *testing.T) {
	dir := t.TempDir()
	lockDir := filepath.Join(dir, "ledger", "ledger.lock")
	if err := os.MkdirAll(lockDir, 0o755); err != nil {
		t.Fatal(err)
	}
	_, stderr := wantCode(t, exitNotHad, "ledger", "append", "-timeout", "0", dir, `1`)
	wantText(t, stderr, "ledger.lock")
	waits := start(t, "ledger", "append", "-timeout", "1m", dir, `1`)
	if err := os.Remove(lockDir); err != nil {
		t.Fatal(err)
	}
	waits.expect(`{"sequence":1}`)
}

// TestLedger_Prefix: a ledger is gone on with by the names that it has.
func TestLedger_Prefix(t *testing.T) {
	for _, prefix := range []string{"", "x", "event-", "e0", "7"} {
		dir := t.TempDir()
		wantCode(t, exitOK, "ledger", "append", "-prefix", prefix, dir, "1")
		out, _ := wantCode(t, exitOK, "ledger", "append", dir, "2")
		if out != `{"sequence":2}`+"\n" {
			t.Errorf("prefix %q: appended %s", prefix, out)
		}
		taken, _ := wantCode(t, exitOK, "claim", "take", "-owner", "me", dir, "1")
		wantFile(t, filepath.Join(dir, "ledger", prefix+"000003.json"), true)
		if out, _ := wantCode(t, exitOK, "claim", "list", dir); out != taken {
			t.Errorf("prefix %q: listed %s, took %s", prefix, out, taken)
		}
		if out, _ := wantCode(t, exitOK, "ledger", "head", dir); out != `{"sequence":3}`+"\n" {
			t.Errorf("prefix %q: the head is %s", prefix, out)
		}
		if out, _ := wantCode(t, exitOK, "ledger", "read", "-after", "1", dir); strings.Count(out, "\n") != 2 {
			t.Errorf("prefix %q: read %s", prefix, out)
		}
		if _, stderr := wantCode(t, exitUsage, "claim", "take", "-prefix", "other", "-owner", "me", dir, "2"); stderr == "" {
			t.Error("nothing said")
		}
	}
}

func TestClaims(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "meta.json"), `{"lock_timeout":"1h"}`)
	taken, _ := wantCode(t, exitOK, "claim", "take", "-owner", "me", dir, "1.2")
	var c struct {
		NodeID    string    `json:"node_id"`
		Owner     string    `json:"owner"`
		Acquired  time.Time `json:"acquired_at"`
		ExpiresAt time.Time `json:"expires_at"`
	}
	if err := json.Unmarshal([]byte(taken), &c); err != nil {
		t.Fatal(err)
	}
	if c.NodeID != "1.2" || c.Owner != "me" || c.ExpiresAt.Sub(c.Acquired) != time.Hour {
		t.Errorf("took %+v", c)
	}
	if out, _ := wantCode(t, exitOK, "claim", "list", dir); out != taken {
		t.Errorf("listed %q, took %q", out, taken)
	}
	// wantConflict: who has it is said to people, and to programs in the same form.
	wantConflict := func(what, claim, why string, args ...string) {
		t.Helper()
		out, stderr := wantCode(t, exitNotHad, append([]string{"claim"}, args...)...)
		wantText(t, stderr, why)
		if want := strings.TrimSuffix(claim, "}\n") + `,"conflict":"` + what + "\"}\n"; out != want {
			t.Errorf("%q: got %s, want %s", args, out, want)
		}
	}
	wantConflict("claimed", taken, `claimed by "me"`, "take", "-owner", "you", dir, "1.2")
	wantConflict("own", taken, `"me" has node 1.2 itself`, "take", "-owner", "me", dir, "1.2")
	wantConflict("claimed", taken, `not by "you"`, "release", "-owner", "you", dir, "1.2")
	wantConflict("claimed", taken, `not by "you"`, "refresh", "-owner", "you", dir, "1.2")
	wantConflict("none", `{"node_id":"7"}`+"\n", `no claim on node 7`, "refresh", "-owner", "me", dir, "7")
	refreshed, _ := wantCode(t, exitOK, "claim", "refresh", "-owner", "me", dir, "1.2")
	acquired := c.Acquired
	if err := json.Unmarshal([]byte(refreshed), &c); err != nil || !c.Acquired.Equal(acquired) || c.ExpiresAt.Sub(c.Acquired) <= time.Hour {
		t.Errorf("refreshed: %s (%v), acquired at %v", refreshed, err, acquired)
	}
	if out, _ := wantCode(t, exitOK, "claim", "list", dir); out != refreshed {
		t.Errorf("listed %q, refreshed %q", out, refreshed)
	}
	if out, _ := wantCode(t, exitOK, "claim", "release", "-owner", "me", dir, "1.2"); out != "" {
		t.Errorf("said %q", out)
	}
	wantCode(t, exitNotHad, "claim", "refresh", "-owner", "me", dir, "1.2")
	write(t, filepath.Join(dir, "meta.json"), `{"lock_timeout":"1s"}`)
	taken, _ = wantCode(t, exitOK, "claim", "take", "-owner", "me", dir, "1.3")
	reaper := start(t, "claim", "reap", "-every", "10ms", dir)
	reaper.expect(strings.TrimSpace(taken)) // once it has expired
	if out, _ := wantCode(t, exitOK, "claim", "reap", dir); out != "" {
		t.Errorf("reaped twice: %q", out)
	}
	write(t, filepath.Join(dir, "meta.json"), `{"lock_timeout":"1d"}`)
	_, stderr := wantCode(t, exitError, "claim", "take", "-owner", "me", dir, "1.4")
	wantText(t, stderr, "meta.json", "lock_timeout")
}

func TestConflictOf(t *testing.T) {
	mine := claims.Claim{NodeID: "1", Owner: "me"}
	for _, c := range []struct {
		err  error
		want string
	}{
		{&claims.ClaimedError{Owner: "me", Claim: mine}, "own"},
		{&claims.ClaimedError{Owner: "you", Claim: mine}, "claimed"},
		{&claims.NotOwnedError{NodeID: "1", Owner: "you", Claim: &mine}, "claimed"},
		{&claims.NotOwnedError{NodeID: "1", Owner: "me", Claim: &mine}, "expired"},
		{&claims.NotOwnedError{NodeID: "1", Owner: "me"}, "none"},
	} {
		if got := conflictOf(c.err); got.Conflict != c.want || got.NodeID != "1" || (got.Claim == nil) != (c.want == "none") {
			t.Errorf("%v: got %+v, want %s", c.err, got, c.want)
		}
	}
}
