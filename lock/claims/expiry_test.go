package claims_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock/claims"
)

// TestExpiry: a claim counts up to the moment before its expires_at, for longer with
// a tolerance; then it can be claimed by anybody, and not be refreshed any more.
func TestExpiry(t *testing.T) {
	for _, skew := range []time.Duration{0, 3 * time.Second} {
		dir, c, m := proof(t)
		m.Skew = skew
		mine := claim(t, m, "1", "a")
		if want := start.Add(claims.DefaultLifetime); !mine.ExpiresAt.Equal(want) || !mine.AcquiredAt.Equal(start) {
			t.Errorf("the claim is from %v to %v, want %v to %v", mine.AcquiredAt, mine.ExpiresAt, start, want)
		}
		c.at = mine.ExpiresAt.Add(skew - 1)
		wantErr(t, errOf(m.Claim(t.Context(), "1", "b")), claims.ErrClaimed, "skew", skew, "claim just before it expires")
		if ended, err := m.Reap(t.Context()); err != nil || len(ended) != 0 {
			t.Errorf("skew %v: reaped before it expired: %v, %v", skew, ended, err)
		}
		if active, err := m.Active(); err != nil || len(active) != 1 {
			t.Errorf("skew %v: active just before it expires: %v, %v", skew, active, err)
		}
		c.add(1)
		if active, err := m.Active(); err != nil || len(active) != 0 {
			t.Errorf("skew %v: active when it expires: %v, %v", skew, active, err)
		}
		_, err := m.Refresh(t.Context(), "1", "a")
		var notOwned *claims.NotOwnedError
		if !errors.As(err, &notOwned) || notOwned.Claim == nil || notOwned.Claim.Owner != "a" {
			t.Errorf("skew %v: refresh when it has expired: %v", skew, err)
		}
		before := len(events(t, dir))
		theirs := claim(t, m, "1", "b")
		wantStory(t, dir, "acquired 1 a", "reaped 1 a", "acquired 1 b")
		if all := events(t, dir); !all[before].Timestamp.Equal(all[before+1].Timestamp) {
			t.Errorf("reaped at %v, and claimed at %v", all[before].Timestamp, all[before+1].Timestamp)
		}
		if got := inFiles(t, dir)["1"]; !same(got, theirs) {
			t.Errorf("the file is %v, want %v", got, theirs)
		}
	}
}

// TestRefresh: a refresh counts from now, for its owner alone.
func TestRefresh(t *testing.T) {
	dir, c, m := proof(t)
	first := claim(t, m, "1", "a")
	c.add(claims.DefaultLifetime - 1)
	longer, err := m.Refresh(t.Context(), "1", "a")
	check(t, err)
	if want := c.at.Add(claims.DefaultLifetime); !longer.ExpiresAt.Equal(want) || !longer.AcquiredAt.Equal(first.AcquiredAt) {
		t.Errorf("refreshed: %v, want it to be from %v, and to expire at %v", longer, first.AcquiredAt, want)
	}
	if again, ok, err := manager(dir, c).IsClaimed("1"); !ok || err != nil || !same(again, longer) {
		t.Errorf("read anew: %v, %v, want %v", again, err, longer)
	}
	if got := inFiles(t, dir)["1"]; !same(got, longer) {
		t.Errorf("the file is %v, want %v", got, longer)
	}
	wantErr(t, errOf(m.Refresh(t.Context(), "1", "b")), claims.ErrNotOwned, "refresh by another")
	wantErr(t, errOf(m.Refresh(t.Context(), "2", "a")), claims.ErrNotOwned, "refresh of what nobody has")
	wantStory(t, dir, "acquired 1 a", "acquired 1 a")
	// meta.json is read each time.
	write(t, dir+"/meta.json", `{"lock_timeout":"1h"}`)
	if longer, err = m.Refresh(t.Context(), "1", "a"); err != nil || !longer.ExpiresAt.Equal(c.at.Add(time.Hour)) {
		t.Errorf("refreshed with lock_timeout 1h: %v, %v", longer, err)
	}
}

// TestTwice: what has been done can't be done twice, and says whose the claim is.
func TestTwice(t *testing.T) {
	dir, c, m := proof(t)
	mine := claim(t, m, "1", "a")
	for _, owner := range []string{"a", "b"} {
		_, err := m.Claim(t.Context(), "1", owner)
		var claimed *claims.ClaimedError
		if !errors.Is(err, claims.ErrClaimed) || !errors.As(err, &claimed) || !same(claimed.Claim, mine) || claimed.Owner != owner {
			t.Fatalf("claim by %s: %v", owner, err)
		}
		if own := owner == "a"; strings.Contains(err.Error(), "itself") != own || strings.Contains(err.Error(), "wait") == own {
			t.Errorf("claim by %s: %v", owner, err)
		}
	}
	err := m.Release(t.Context(), "1", "b")
	var notOwned *claims.NotOwnedError
	if !errors.Is(err, claims.ErrNotOwned) || !errors.As(err, &notOwned) || notOwned.Claim == nil || notOwned.Claim.Owner != "a" {
		t.Errorf("release by another: %v", err)
	}
	that(t, exists(lockFile(dir, "1")), "a refused release has removed the file")
	noErr(t, m.Release(t.Context(), "1", "a"))
	wantErr(t, m.Release(t.Context(), "1", "a"), claims.ErrNotOwned, "released twice")
	wantStory(t, dir, "acquired 1 a", "released 1 a")

	// An expired claim can still be released, once.
	claim(t, m, "1", "a")
	c.add(time.Hour)
	noErr(t, m.Release(t.Context(), "1", "a"), "release of an expired claim")
	if ended, err := m.Reap(t.Context()); err != nil || len(ended) != 0 {
		t.Errorf("reaped what was released: %v, %v", ended, err)
	}
}

// TestClockSetBack: with a clock that was set back claims last longer, and nothing
// else changes: they can be refreshed, and released, and leave nothing behind.
func TestClockSetBack(t *testing.T) {
	dir, c, m := proof(t)
	claim(t, m, "1", "a")
	claim(t, m, "2", "a")
	c.add(-time.Hour)
	wantErr(t, errOf(m.Claim(t.Context(), "1", "b")), claims.ErrClaimed, "claim with the clock set back")
	if ended, err := m.Reap(t.Context()); err != nil || len(ended) != 0 {
		t.Errorf("reaped with the clock set back: %v, %v", ended, err)
	}
	if shorter, err := m.Refresh(t.Context(), "1", "a"); err != nil || !same(inFiles(t, dir)["1"], shorter) {
		t.Errorf("refresh with the clock set back: %v", err)
	}
	if active, err := manager(dir, c).Active(); err != nil || len(active) != 2 || active[0].ExpiresAt.Before(active[0].AcquiredAt) {
		t.Errorf("refreshed with the clock set back: %v, %v", active, err)
	}
	for _, node := range []string{"1", "2"} {
		noErr(t, m.Release(t.Context(), node, "a"))
	}
	if active, err := manager(dir, c).Active(); err != nil || len(active) != 0 || len(inFiles(t, dir)) != 0 {
		t.Errorf("afterwards: %v, %v, files %v", active, err, inFiles(t, dir))
	}
}

// TestReleaseOfFuture: a file of a program whose clock is ahead is released by its
// owner for good, and with one event.
func TestReleaseOfFuture(t *testing.T) {
	dir, _, m := proof(t)
	foreign(t, dir, "1", "a", start.Add(time.Minute), start.Add(time.Hour))
	check(t, m.Release(t.Context(), "1", "a"))
	wantErr(t, m.Release(t.Context(), "1", "a"), claims.ErrNotOwned, "released twice")
	that(t, !exists(lockFile(dir, "1")), "the file is still there")
	wantStory(t, dir, "released 1 a")
}

// TestOrder: claims are listed, and reaped, number by number.
func TestOrder(t *testing.T) {
	_, c, m := proof(t)
	want := []string{"1", "1.2", "1.2.1", "1.10", "2", "10", "18446744073709551616"}
	for _, i := range []int{3, 6, 0, 5, 2, 4, 1} {
		claim(t, m, want[i], "a")
	}
	active := must(m.Active())(t)
	c.add(time.Hour)
	ended := must(m.Reap(t.Context()))(t)
	for i, node := range want {
		if active[i].NodeID != node || ended[i].NodeID != node {
			t.Errorf("number %d is %s, and %s, want %s", i, active[i].NodeID, ended[i].NodeID, node)
		}
	}
}

// TestLedgerReplaced: a Manager that has seen more of a ledger than there is now, as
// an older copy was put in its place, finds its way with the next call.
func TestLedgerReplaced(t *testing.T) {
	dir, _, m := proof(t)
	claim(t, m, "1", "a")
	claim(t, m, "2", "a")
	check(t, errors.Join(os.RemoveAll(dir+"/ledger"), os.RemoveAll(dir+"/locks")))
	that(t, errOf(m.Claim(t.Context(), "3", "a")) != nil, "decided on a ledger that is there no more")
	claim(t, m, "1", "b")
	wantStory(t, dir, "acquired 1 b")
}

// TestReleaseAfterClockSetBack: a release is never told of as before the refresh.
func TestReleaseAfterClockSetBack(t *testing.T) {
	dir, c, m := proof(t)
	claim(t, m, "1", "a")
	c.add(time.Minute)
	check(t, errOf(m.Refresh(t.Context(), "1", "a")))
	c.add(-time.Second)
	check(t, m.Release(t.Context(), "1", "a"))
	if all := events(t, dir); all[2].Timestamp.Before(all[1].Timestamp) {
		t.Errorf("released at %v, refreshed at %v", all[2].Timestamp, all[1].Timestamp)
	}
}

// TestRefresh_Skew: as long as a claim counts, its owner can refresh it.
func TestRefresh_Skew(t *testing.T) {
	dir, c, m := proof(t)
	m.Skew = 3 * time.Second
	mine := claim(t, m, "1", "a")
	c.at = mine.ExpiresAt.Add(m.Skew - 1)
	if longer, err := m.Refresh(t.Context(), "1", "a"); err != nil || !longer.ExpiresAt.Equal(c.at.Add(claims.DefaultLifetime)) {
		t.Errorf("refreshed just before it expires: %v, %v", longer, err)
	}
	wantStory(t, dir, "acquired 1 a", "acquired 1 a")
}
