package tests

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/claims"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/lock/ledger"
)

// af prepares a tool that follows af's published protocol to the letter.
func af(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("needs python3, to have a tool in another language append: ", err)
	}
	return exec.Command("python3", append([]string{filepath.Join("testdata", "af.py")}, args...)...)
}

// says runs it, and returns what it says, and whether it ended well.
func says(t *testing.T, args ...string) (said string, ok bool) {
	t.Helper()
	out, err := af(t, args...).CombinedOutput()
	return strings.TrimSpace(string(out)), err == nil
}

// TestAF_Append: two of these tools, the protocol's own shell script and two processes of
// ours append to one ledger. Nothing is lost, replaced, or out of order.
func TestAF_Append(t *testing.T) { // guards: O4
	const each = 30
	dir := t.TempDir()
	check(t, os.Mkdir(filepath.Join(dir, "ledger"), 0o700))
	af(t) // or skip
	var all sync.WaitGroup
	for i := range 2 {
		all.Go(func() {
			if said, ok := says(t, "append", dir, strconv.Itoa(each)); !ok {
				t.Errorf("the tool: %s", said)
			}
		})
		all.Go(func() {
			if out, err := play(t, "ledger", dir, fmt.Sprint("ours", i), strconv.Itoa(each), "1").Output(); err != nil {
				t.Errorf("ours: %v: %s", err, out)
			}
		})
	}
	all.Go(func() {
		for range each {
			if out, err := exec.Command("bash", "-c", script, "bash", dir).CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("the script: %v: %s", err, out)
			}
		}
	})
	all.Wait()
	next, scripts := map[string]int{}, 0
	for event, err := range (ledger.Ledger{Dir: dir}).Events(0) {
		check(t, err)
		var e struct {
			entry
			Agent string `json:"agent"`
		}
		check(t, json.Unmarshal(event.Data, &e))
		switch who := e.ID + e.Agent; {
		case who == "":
			scripts++
		case e.N != next[who]:
			t.Errorf("event %d is number %d of %s, not %d", event.Sequence, e.N, who, next[who])
		default:
			next[who]++
		}
	}
	that(t, len(next) == 4 && scripts == each, "%d events of the script, and %v", scripts, next)
	for who, n := range next {
		equal(t, n, each, "events of", who)
	}
	for p, err := range (ledger.Ledger{Dir: dir}).Verify(nil) {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestAF_Killed: what a killed tool leaves says nothing of who it was, so that only a hand may
// remove it, as the protocol has it. What a killed process of ours leaves, the tool can't
// remove, and the next of ours does.
func TestAF_Killed(t *testing.T) { // guards: O4
	dir := t.TempDir()
	l := ledger.Ledger{Dir: dir, Timeout: time.Nanosecond}
	check(t, errOf(ledger.Ledger{Dir: dir}.Append(t.Context(), []byte(`{"type":"custom_event"}`))))
	lockFile := filepath.Join(dir, "ledger", "ledger.lock")

	c := testkit.StartCommand(t, af(t, "hold", dir))
	c.Expect("held")
	c.Kill()
	left, err := os.ReadFile(lockFile)
	check(t, err)
	_, err = l.Append(t.Context(), []byte(`{"type":"custom_event"}`))
	var locked *lock.LockedError
	if !errors.As(err, &locked) || locked.State != evidence.Unknown || !strings.Contains(err.Error(), "python-"+strconv.Itoa(c.Cmd.Process.Pid)) {
		t.Errorf("beside a killed tool's lock: %v", err)
	}
	equal(t, string(must(os.ReadFile(lockFile))(t)), string(left), "its lock is now")
	check(t, os.Remove(lockFile))
	check(t, errOf(ledger.Ledger{Dir: dir}.Append(t.Context(), []byte(`{"type":"custom_event"}`))))

	ours := testkit.Start(t, "ledger-hold", dir)
	ours.Expect("held")
	ours.Kill()
	// What the protocol has others read there.
	var said struct {
		AgentID    string    `json:"agent_id"`
		AcquiredAt time.Time `json:"acquired_at"`
	}
	data := must(os.ReadFile(lockFile))(t)
	check(t, json.Unmarshal(data, &said))
	that(t, said.AgentID == "ours" && time.Since(said.AcquiredAt).Abs() <= testkit.Patience, "others read %+v", said)
	tool := background(t, af(t, "append", dir, "1"))
	if last, err := (ledger.Ledger{Dir: dir}).Append(t.Context(), []byte(`{"type":"custom_event"}`)); err != nil || last < 3 {
		t.Errorf("behind a killed process of ours: %d, %v", last, err)
	}
	noErr(t, tool.Wait(), "the tool")
	equal(t, must((ledger.Ledger{Dir: dir}).Sequence())(t), 4, "the last event")
}

func init() { roles["ledger-hold"] = ledgerHold }

// ledgerHold has the lock of the ledger at args[0] until it is killed.
func ledgerHold(args []string) error {
	return ledger.Ledger{Dir: args[0], AgentID: "ours"}.Locked(context.Background(), func(context.Context, *ledger.Writer) error {
		fmt.Println("held")
		select {}
	})
}

// TestAF_Claims: each sees the other's claims, and is kept out by them; the tool's replay,
// which knows no event of a claim that is not there, goes through all that we write.
func TestAF_Claims(t *testing.T) { // guards: O4
	dir := t.TempDir()
	var ahead time.Duration
	m := &claims.Manager{Dir: dir, Now: func() time.Time { return time.Now().Add(ahead) }}
	sees := func(want ...string) {
		t.Helper()
		if said, ok := says(t, "replay", dir); !ok || said != strings.Join(want, "\n") {
			t.Errorf("the tool sees %q, want %q", said, want)
		}
		active := must(m.Active())(t)
		var got []string
		for _, c := range active {
			got = append(got, c.NodeID+" "+c.Owner)
		}
		that(t, strings.Join(got, "\n") == strings.Join(want, "\n"), "we see %q, want %q", got, want)
	}
	check(t, errOf(m.Claim(t.Context(), "1", "ours")))
	check(t, errOf(m.Refresh(t.Context(), "1", "ours")))
	sees("1 ours")
	if said, ok := says(t, "claim", dir, "1", "theirs", "60"); ok || said != "node already locked: ours" {
		t.Errorf("claiming ours: %s", said)
	}
	if said, ok := says(t, "claim", dir, "1.2", "theirs", "3000"); !ok {
		t.Errorf("claiming what is free: %s", said)
	}
	sees("1 ours", "1.2 theirs")
	var claimed *claims.ClaimedError
	if _, err := m.Claim(t.Context(), "1.2", "ours"); !errors.As(err, &claimed) || claimed.Claim.Owner != "theirs" {
		t.Errorf("claiming theirs: %v", err)
	}
	wantErr(t, m.Release(t.Context(), "1.2", "ours"), claims.ErrNotOwned, "releasing theirs")
	check(t, m.Release(t.Context(), "1", "ours"))
	if said, ok := says(t, "claim", dir, "1", "theirs", "3000"); !ok {
		t.Errorf("claiming what we have released: %s", said)
	}
	sees("1 theirs", "1.2 theirs")
	if said, ok := says(t, "release", dir, "1", "theirs"); !ok {
		t.Errorf("releasing: %s", said)
	}
	check(t, errOf(m.Claim(t.Context(), "1", "ours")))
	sees("1 ours", "1.2 theirs")

	// What has expired by our clock, we end; theirs, too.
	ahead = 55 * time.Minute
	ended, err := m.Reap(t.Context())
	that(t, err == nil && len(ended) == 2, "reaped %v, %v", ended, err)
	sees()
	check(t, errOf(m.Claim(t.Context(), "1.2", "ours")))
	sees("1.2 ours")
}
