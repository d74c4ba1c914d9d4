package dispatch_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/dispatch"
	"github.com/holdfast-go/holdfast/platform"
)

// seen is what a dispatcher of the published format reads in a claim, as its own code has
// it: every field there, with its type, and of this id; else nothing.
func seen(data []byte) (pid float64, hostname string, ok bool) {
	var all map[string]json.RawMessage
	if json.Unmarshal(data, &all) != nil || all == nil {
		return 0, "", false
	}
	text := map[string]string{}
	for _, name := range []string{"gardenId", "hostname", "createdAt", "nonce", "owner"} {
		var value any
		_ = json.Unmarshal(all[name], &value)
		s, isText := value.(string)
		if !isText {
			return 0, "", false
		}
		text[name] = s
	}
	var value any
	_ = json.Unmarshal(all["pid"], &value)
	pid, isNumber := value.(float64)
	return pid, text["hostname"], isNumber && text["owner"] == dispatch.Owner && text["gardenId"] == id
}

// FuzzClaim: of whatever lies at an id's path, that is taken over which the published
// format says is a dead process's of this host, and nothing else; and what is not taken over
// is left as it is.
func FuzzClaim(f *testing.F) {
	host := platform.ThisHost().Name
	for _, pid := range []any{noSuchPID, 1, os.Getpid(), 0, -1, 1.5, "7", nil, 1e300, 2147483646.0} {
		for _, changes := range []fields{{}, {"hostname": "elsewhere"}, {"owner": "other"}, {"gardenId": other}, {"nonce": 1}, {"createdAt": "junk"}} {
			changes["pid"] = pid
			claim := fields{"gardenId": id, "hostname": host, "createdAt": "2001-02-03T04:05:06.789Z", "nonce": "00ff", "owner": "entwurf_v2", "lockPath": "/x"}
			for name, value := range changes {
				claim[name] = value
			}
			text := must(json.Marshal(claim))(f)
			f.Add(text)
		}
	}
	for _, text := range []string{"", "null", "{}", "\x00\x00", "{", "[1]", `{"pid":`} {
		f.Add([]byte(text))
	}
	top := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 70<<10 {
			return
		}
		dir := filepath.Join(top, "locks")
		defer os.RemoveAll(dir)
		check(t, os.Mkdir(dir, 0o700))
		put(t, lockPath(dir), data)
		before := contents(t, dir)
		pid, hostname, ok := seen(data)
		whole := pid == math.Trunc(pid) && pid >= 1 && pid <= math.MaxInt32
		may := ok && hostname == host && whole && platform.Probe(platform.Process{PID: int(pid)}) == platform.Gone
		// Ours are judged by the kernel's lock, and may say that they were released. Package
		// json may take a name for another, so that such a claim is nobody's.
		var names map[string]json.RawMessage
		_ = json.Unmarshal(data, &names)
		ours, odd := false, false
		for name := range names {
			ours = ours || strings.EqualFold(name, "holdfast")
			for _, field := range []string{"gardenId", "pid", "hostname", "createdAt", "nonce", "owner"} {
				odd = odd || name != field && strings.EqualFold(name, field)
			}
		}
		nuls := len(data) > 0 && strings.Trim(string(data), "\x00") == ""
		claim, err := dispatch.Locks{Dir: dir}.Acquire(t.Context(), id)
		var conflict *dispatch.ConflictError
		switch {
		case err == nil && !may && !(ok && ours), err != nil && may && !ours && !odd && len(data) <= 64<<10:
			t.Errorf("taken over: %t (%v); read as pid %v on %q, %t", err == nil, err, pid, hostname, ok)
		case err == nil && nuls:
			t.Error("NULs were taken over")
		case err != nil && !errors.As(err, &conflict):
			t.Errorf("%v is no conflict", err)
		}
		if err == nil {
			release(t, claim, dispatch.OutcomeReleased)
			equal(t, contents(t, dir), "", "left behind")
			return
		}
		if after := contents(t, dir); after != before {
			t.Errorf("a conflict changed\n%s\nto\n%s", before, after)
		}
		if conflict.Holder != nil && (!ok || !whole || conflict.Holder.PID != int(pid) || conflict.Holder.Hostname != hostname) {
			t.Errorf("the holder is said to be %+v; read as pid %v on %q, %t", conflict.Holder, pid, hostname, ok)
		}
		again := new(dispatch.ConflictError)
		if _, err := (dispatch.Locks{Dir: dir}).Acquire(t.Context(), id); !errors.As(err, &again) || again.Detail != conflict.Detail {
			t.Errorf("a second look: %v; the first: %v", err, conflict)
		}
	})
}

// FuzzID: an id is that of one file in the folder; or it is refused, with nothing written.
func FuzzID(f *testing.F) {
	for _, id := range []string{id, "a", "", ".", "..", "../x", "a/b", "/a", `a\b`, "a\x00b", "-a", "a.lock", "a.flock", "a.lock.reclaim", "a.reclaim.b",
		strings.Repeat("a", 128), strings.Repeat("a", 129), "é", "a\n", "\xff"} {
		f.Add(id)
	}
	top := f.TempDir()
	f.Fuzz(func(t *testing.T, id string) {
		dir := filepath.Join(top, "locks")
		defer os.RemoveAll(dir)
		claim, err := dispatch.Locks{Dir: dir}.Acquire(t.Context(), id)
		if err != nil {
			that(t, errors.Is(err, lock.ErrInvalidName), "%q: %v", id, err)
			if entries, err := os.ReadDir(top); err != nil || len(entries) > 0 {
				t.Errorf("%q is refused, and there is %v, %v", id, entries, err)
			}
			return
		}
		entries := must(os.ReadDir(dir))(t)
		if got := fmt.Sprint(entries); got != "[- "+id+".lock - "+id+".lock.flock]" || claim.LockPath != filepath.Join(dir, id+".lock") {
			t.Errorf("%q made %s, at %s", id, got, claim.LockPath)
		}
		that(t, dispatch.DefaultID.MatchString(id), "%q was taken", id)
		release(t, claim, dispatch.OutcomeReleased)
	})
}
