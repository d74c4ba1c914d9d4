package lock_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/engine"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/platform"
)

// Each of these has an oracle that is written here once more, from FORMATS.md, or compares
// two looks at the same thing. What a crash of one of them leaves behind in testdata/fuzz is
// run by every go test from then on.

// FuzzLockFile: whatever lies at a lock's path, all who look judge it the same. What is not
// taken over is left as it was, to the last bit; and of another program's claim, and of
// what is no claim, the file formats say whether it may be taken.
func FuzzLockFile(f *testing.F) {
	for _, content := range testkit.NotClaims {
		f.Add([]byte(content), false, false)
		f.Add([]byte(content), true, true)
	}
	for _, name := range []string{"claim_holdfast.json", "claim_holdfast_fallback.json", "claim_holdfast_session.json",
		"claim_holdfast_0.json", "claim_agency.json", "claim_other_program.json"} {
		f.Add(goldenClaim(f, name), false, true)
		f.Add(goldenClaim(f, name), true, false)
	}
	now := time.Now().UTC().Format(time.RFC3339)
	for _, pid := range []int{os.Getpid(), 1, math.MaxInt32} {
		f.Add(fmt.Appendf(nil, `{"pid":%d,"created_at":%q,"cmd":"x"}`, pid, now), false, false)
		f.Add(fmt.Appendf(nil, `{"pid":%d,"created_at":%q,"hostname":"elsewhere"}`, pid, now), false, false)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte, old, marked bool) {
		if len(data) > 70<<10 {
			return
		}
		l := lock.File{Path: filepath.Join(dir, "lock")}
		defer func() {
			os.Remove(l.Path)
			os.Remove(l.Path + ".flock")
		}()
		check(t, os.WriteFile(l.Path, data, 0o600))
		if marked {
			check(t, os.Chmod(l.Path, 0o600|fs.ModeSticky))
		}
		if old {
			past := time.Now().Add(-3 * time.Hour)
			check(t, os.Chtimes(l.Path, past, past))
		}
		before := treeState(t, dir, ".", "lock.flock")
		first := inspect(t, l)
		again := inspect(t, l)
		if first.State != again.State || first.Evidence != again.Evidence || !reflect.DeepEqual(first.Info, again.Info) {
			t.Errorf("looked at twice, it is %s, %s, and then %s, %s", first.State, first.Evidence, again.State, again.Evidence)
		}
		sameTree(t, before, treeState(t, dir, ".", "lock.flock"))
		held, err := l.TryAcquire(t.Context())
		if taken := err == nil; taken != (first.State == evidence.Dead) {
			t.Errorf("said to be %s (%s); acquiring gave %v", first.State, first.Evidence, err)
		}
		if may, must := foreign(data, old, marked); err == nil && !may || err != nil && must {
			t.Errorf("taken: %t (%s, %s); it may: %t, it must: %t", err == nil, first.State, first.Evidence, may, must)
		}
		if err != nil {
			locked := asLocked(t, err)
			if locked.Evidence != first.Evidence || locked.State != first.State {
				t.Errorf("said to be %s, %s, and to who acquires %s, %s", first.State, first.Evidence, locked.State, locked.Evidence)
			}
			sameTree(t, before, treeState(t, dir, ".", "lock.flock"))
			return
		}
		check(t, held.Release())
		equal(t, names(t, dir), "lock.flock", "left behind")
	})
}

// foreign says whether a file that holdfast did not write may be taken over, and whether it
// must, as FORMATS.md and GUARANTEES.md have it. Of what holdfast may have written it knows
// nothing: it may, and must not.
func foreign(data []byte, old, marked bool) (may, must bool) {
	if len(data) > 64<<10 {
		return false, false
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(data, &fields) != nil {
		fields = nil
	}
	for name := range fields {
		if strings.EqualFold(name, "holdfast") {
			return true, false
		}
	}
	pid, perr := strconv.ParseFloat(string(bytes.TrimSpace(fields["pid"])), 64)
	var created time.Time
	terr := json.Unmarshal(fields["created_at"], &created)
	if perr != nil || terr != nil || pid != math.Trunc(pid) || pid < 1 || pid > math.MaxInt32 || created.IsZero() {
		// No claim. The beginning of one, or nothing, goes by its age, or by the mark; NULs are
		// those of a loss of power. All else is somebody's data.
		debris := strings.HasPrefix(`{"pid":`, string(data)) || bytes.HasPrefix(data, []byte(`{"pid":`)) && !json.Valid(data)
		nuls := len(bytes.Trim(data, "\x00")) == 0 && len(data) > 0
		return nuls || debris && (old || marked), nuls && old || debris && old
	}
	var host string
	_ = json.Unmarshal(fields["hostname"], &host)
	aged := time.Since(created) > 2*time.Hour
	gone := platform.Probe(platform.Process{PID: int(pid)}) == platform.Gone
	here := host == "" || host == platform.ThisHost().Name
	return aged || gone && here, aged && gone || gone && here
}

// FuzzSibling: whatever lies in the place of the sibling, the lock is had. If it is somebody's
// data, it is left as it was; else its fence goes on, and what holders say in it is found
// again.
func FuzzSibling(f *testing.F) {
	for _, content := range hostileAreas {
		for _, offset := range []int{endAt, wordAt, secondEndAt, secondWordAt} {
			f.Add(append(make([]byte, offset), content()...))
		}
	}
	for _, fence := range []string{"", "x", "\x00\x005\n", "00001767323045678901234\n", "\x00\x0000001767323045678901\n", "\x00\x0001767323045678901234\n", "\x00\x0009223372036854775807\n", "ab00004767323045678901\n"} {
		f.Add([]byte(fence))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		l := lock.File{Path: filepath.Join(dir, "lock")}
		sibling := l.Path + ".flock"
		defer os.Remove(sibling)
		putSibling(t, l.Path, string(data))
		line := data[min(2, len(data)):min(23, len(data))]
		last, perr := strconv.ParseInt(string(line[:min(20, len(line))]), 10, 64)
		_, unreasonable := engine.NextFence(last, time.Now())
		none := len(bytes.Trim(line, "\x00")) == 0
		alien := len(data) > siblingSize || !none && (perr != nil || last < 0 || len(line) != 21 || line[20] != '\n' || line[0] == '+') ||
			!platform.KeepsMarks && len(bytes.Trim(data[:min(2, len(data))], "\x00")) > 0

		status := inspect(t, l)
		held := tryHold(t, l)
		before, err := held.Predecessor()
		that(t, err == nil || alien, "the predecessor: %v", err)
		if !reflect.DeepEqual(status.Last, before) {
			t.Errorf("who had it last is %+v, and to the next holder %+v", status.Last, before)
		}
		fence, ferr := held.Fence()
		switch {
		case (ferr != nil) != (alien || !none && unreasonable != nil):
			t.Errorf("the fence: %v", ferr)
		case ferr == nil && !none && fence <= last:
			t.Errorf("the fence is %d, behind %d", fence, last)
		}
		nerr := held.Note("mine")
		letGo(t, held)
		after := getFile(t, sibling)
		if alien {
			that(t, nerr != nil && bytes.Equal(after, data), "somebody's data was changed (%v)", nerr)
			return
		}
		check(t, nerr)
		if len(after) > siblingSize || !bytes.Equal(after[:min(2, len(data))], data[:min(2, len(data))]) {
			t.Errorf("it has %d bytes, and begins with %q", len(after), after[:2])
		}
		held = tryHold(t, l)
		defer letGo(t, held)
		if p, err := held.Predecessor(); err != nil || p == nil || p.Info.PID != os.Getpid() || p.Note != "mine" || p.How != lock.EndReleased {
			t.Errorf("the next one finds %+v, %v", p, err)
		}
		if next, err := held.Fence(); ferr == nil && (err != nil || next <= fence) {
			t.Errorf("the fence goes from %d to %d, %v", fence, next, err)
		}
	})
}
