package claims_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock/claims"
)

// foreign writes the file of a claim, and no event, as another program does.
func foreign(t *testing.T, dir, node, owner string, from, to time.Time) {
	t.Helper()
	write(t, lockFile(dir, node), fmt.Sprintf(`{"node_id":%q,"owner":%q,"acquired_at":%q,"expires_at":%q}`,
		node, owner, from.Format(time.RFC3339Nano), to.Format(time.RFC3339Nano)))
}

// TestForeignFile: a file without event is a claim like any other: respected until
// it expires, then reaped once; its owner can refresh and release it.
func TestForeignFile(t *testing.T) {
	dir, c, m := proof(t)
	end := start.Add(time.Minute)
	foreign(t, dir, "1", "them", start, end)
	text := read(t, lockFile(dir, "1"))
	for _, owner := range []string{"us", "them"} {
		wantErr(t, errOf(m.Claim(t.Context(), "1", owner)), claims.ErrClaimed, "claim by", owner)
	}
	wantErr(t, m.Release(t.Context(), "1", "us"), claims.ErrNotOwned, "release by another")
	if active, err := m.Active(); err != nil || len(active) != 1 || active[0].Owner != "them" {
		t.Errorf("active: %v, %v", active, err)
	}
	claim(t, m, "2", "us") // whatever else is done leaves it alone
	if ended, err := m.Reap(t.Context()); err != nil || len(ended) != 0 || read(t, lockFile(dir, "1")) != text {
		t.Errorf("before it expires: reaped %v, %v; the file is\n%s", ended, err, read(t, lockFile(dir, "1")))
	}
	c.at = end
	for i := range 3 {
		ended, err := manager(dir, c).Reap(t.Context())
		that(t, err == nil && len(ended) == max(0, 1-i), "reaped %v, %v", ended, err)
	}
	that(t, !exists(lockFile(dir, "1")), "the file is still there")
	wantStory(t, dir, "acquired 2 us", "reaped 1 them")

	c.add(1)
	foreign(t, dir, "1", "them", c.at, c.at.Add(time.Minute)) // again, and later
	noErr(t, errOf(m.Refresh(t.Context(), "1", "them")))
	if err := m.Release(t.Context(), "1", "them"); err != nil || exists(lockFile(dir, "1")) {
		t.Errorf("release by its owner: %v", err)
	}
	foreign(t, dir, "1", "them", c.at.Add(-time.Hour), c.at)
	foreign(t, dir, "3", "them", c.at.Add(-time.Hour), c.at)
	claim(t, m, "3", "us")
	wantStory(t, dir, "acquired 2 us", "reaped 1 them", "acquired 1 them", "released 1 them", "reaped 3 them", "acquired 3 us")
}

// TestForeignFile_ClockSetBack: an owner's claim, as the ledger tells, ended later than the
// claim that is there now began, as the clock was set back in between. It lasts, and counts.
func TestForeignFile_ClockSetBack(t *testing.T) {
	dir, c, m := proof(t)
	c.add(time.Hour)
	for range 10 { // more than are remembered
		claim(t, m, "1", "them")
		c.add(time.Second)
		check(t, m.Release(t.Context(), "1", "them"))
	}
	c.add(-time.Hour)
	foreign(t, dir, "1", "them", c.at, c.at.Add(time.Minute))
	text := read(t, lockFile(dir, "1"))
	for _, m := range []*claims.Manager{m, manager(dir, c)} {
		wantErr(t, errOf(m.Claim(t.Context(), "1", "us")), claims.ErrClaimed, "claim")
		if _, err := m.Reap(t.Context()); err != nil || read(t, lockFile(dir, "1")) != text {
			t.Errorf("reaped: %v", err)
		}
	}
	c.add(time.Minute)
	claim(t, m, "1", "us")
}

// TestHostileFileOfClaim: where the ledger has the claim, it counts, whatever became
// of its file; other nodes don't suffer, and a reaper tells.
func TestHostileFileOfClaim(t *testing.T) {
	dir, _, m := proof(t)
	claim(t, m, "1", "a")
	write(t, lockFile(dir, "1"), "garbage")
	if c, ok, err := m.IsClaimed("1"); err != nil || !ok || c.Owner != "a" {
		t.Errorf("IsClaimed: %v, %v, %v", c, ok, err)
	}
	wantErr(t, errOf(m.Claim(t.Context(), "1", "b")), claims.ErrClaimed, "claim")
	claim(t, m, "2", "a")
	noErr(t, m.Release(t.Context(), "2", "a"))
	_, err := m.Reap(t.Context())
	that(t, errors.Is(err, claims.ErrFiles) && strings.Contains(err.Error(), lockFile(dir, "1")), "Reap: %v", err)
	wantErr(t, errOf(m.Refresh(t.Context(), "1", "a")), claims.ErrFiles, "Refresh")
	equal(t, read(t, lockFile(dir, "1")), "garbage", "the file was replaced")
	check(t, os.Remove(lockFile(dir, "1")))
	if _, err := m.Reap(t.Context()); err != nil || !same(inFiles(t, dir)["1"], replay(t, dir)["1"]) {
		t.Errorf("it was not repaired: %v, %v", err, inFiles(t, dir))
	}
}

// TestHostileFileOfClaim_Expired: so it is once that claim has expired: nobody has the node.
func TestHostileFileOfClaim_Expired(t *testing.T) {
	dir, c, m := proof(t)
	c.at = claim(t, m, "1", "a").ExpiresAt
	write(t, lockFile(dir, "1"), "garbage")
	if got, ok, err := m.IsClaimed("1"); err != nil || ok {
		t.Errorf("IsClaimed: %v, %v, %v", got, ok, err)
	}
}

// TestNamesIgnored: files with other names than a claim's are nobody's business.
func TestNamesIgnored(t *testing.T) {
	dir, c, m := proof(t)
	names := []string{"README", "1.txt", "a.lock", ".lock", "1..2.lock", "1..lock", "-1.lock", "1.lock.bak", ".1.lock", "1.lock.holdfast-tmp", ".1.lock.tmp", ".a.lock.holdfast-tmp", "1\n.lock"}
	for _, name := range names {
		write(t, filepath.Join(dir, "locks", name), "garbage")
	}
	claim(t, m, "1", "a")
	c.add(time.Hour)
	noErr(t, errOf(m.Reap(t.Context())))
	for _, name := range names {
		equal(t, read(t, filepath.Join(dir, "locks", name)), "garbage", name, "was touched")
	}
}
