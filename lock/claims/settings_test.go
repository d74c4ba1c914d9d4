package claims_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/claims"
)

// TestLifetime: how long a claim lasts is a duration from 1s to 1h, 5m where it is not
// given; anything else is an error with which nothing is claimed, while what is
// claimed can be released and reaped.
func TestLifetime(t *testing.T) {
	for meta, want := range map[string]time.Duration{
		"":                             claims.DefaultLifetime, // no file
		`{}`:                           claims.DefaultLifetime,
		`{"conjecture":"x"}`:           claims.DefaultLifetime,
		`{"lock_timeout":null}`:        claims.DefaultLifetime,
		`{"lock_timeout":"5m","a":[]}`: 5 * time.Minute,
		`{"lock_timeout":"5m0s"}`:      5 * time.Minute,
		`{"lock_timeout":"1s"}`:        time.Second,
		`{"lock_timeout":"1500ms"}`:    1500 * time.Millisecond,
		`{"lock_timeout":"1h"}`:        time.Hour,
		`{"lock_timeout":"3600s"}`:     time.Hour,

		`{"lock_timeout":"999ms"}`:            0,
		`{"lock_timeout":"999999999ns"}`:      0,
		`{"lock_timeout":"1h0m0.000000001s"}`: 0,
		`{"lock_timeout":"24h"}`:              0,
		`{"lock_timeout":"-5m"}`:              0,
		`{"lock_timeout":"0"}`:                0,
		`{"lock_timeout":""}`:                 0,
		`{"lock_timeout":"300"}`:              0,
		`{"lock_timeout":300}`:                0,
		`{"lock_timeout":["5m"]}`:             0,
		`{"lock_timeout":"soon"}`:             0,
		`{"lock_timeout":"5m"`:                0,
		`[]`:                                  0,
		"\n":                                  0,
	} {
		t.Run(meta, func(t *testing.T) {
			dir, c, m := proof(t)
			path := filepath.Join(dir, "meta.json")
			claim(t, m, "2", "a")
			claim(t, m, "3", "a")
			if meta != "" {
				write(t, path, meta)
			}
			got, err := m.Claim(t.Context(), "1", "a")
			_, rerr := m.Refresh(t.Context(), "2", "a")
			if want > 0 {
				if err != nil || rerr != nil || got.ExpiresAt.Sub(got.AcquiredAt) != want {
					t.Errorf("lasts %v, %v, %v; want %v", got.ExpiresAt.Sub(got.AcquiredAt), err, rerr, want)
				}
			} else {
				for _, err := range []error{err, rerr} {
					if !errors.Is(err, claims.ErrLifetime) || !strings.Contains(err.Error(), path) {
						t.Errorf("%v; want ErrTimeout that names %s", err, path)
					}
				}
				wantStory(t, dir, "acquired 2 a", "acquired 3 a")
			}
			noErr(t, m.Release(t.Context(), "2", "a"), "release")
			c.add(2 * time.Hour)
			if ended, err := m.Reap(t.Context()); err != nil || len(ended) == 0 {
				t.Errorf("reaped %v, %v", ended, err)
			}
		})
	}
}

// TestNames: what can't be a node's id, or an owner, is refused by all, and nothing
// is written anywhere.
func TestNames(t *testing.T) {
	refused := func(node, owner string) {
		t.Helper()
		dir, _, m := proof(t)
		_, claimErr := m.Claim(t.Context(), node, owner)
		_, refreshErr := m.Refresh(t.Context(), node, owner)
		errs := []error{claimErr, refreshErr, m.Release(t.Context(), node, owner)}
		if owner == "a" {
			_, _, err := m.IsClaimed(node)
			errs = append(errs, err)
		}
		for _, err := range errs {
			that(t, errors.Is(err, lock.ErrInvalidName), "node %.50q, owner %.50q: %v", node, owner, err)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
			t.Errorf("node %.50q, owner %.50q: written: %v, %v", node, owner, entries, err)
		}
	}
	for _, node := range []string{
		"", ".", "..", "1.", ".1", "1..2", "../1", "1/../2", "1/2", `1\2`, "/1", "a", "1a", "1.a", "-1", "+1", "1.-2", "0x1",
		"1\n", "\n1", "1 ", " 1", "1\x00", "1.2.lock", "1٣", "1,2", "1\xff", strings.Repeat("1", 129), strings.Repeat("1.", 100) + "1",
	} {
		refused(node, "a")
	}
	for _, owner := range []string{"", "a\n", "\x00", "a\x7f", "\xff", "a\u0085", strings.Repeat("a", 1025)} {
		refused("1", owner)
	}
	dir, _, m := proof(t)
	for i, owner := range []string{"a", "agent uuid", `"quoted"`, "日本", "<a&b>", "\u2028", strings.Repeat("a", 1024)} {
		node := fmt.Sprint("1.", i)
		claim(t, m, node, owner)
		if got := replay(t, dir)[node]; got.Owner != owner || !same(inFiles(t, dir)[node], got) {
			t.Errorf("owner %q became %q", owner, got.Owner)
		}
	}
	for _, node := range []string{"0", "007", strings.Repeat("1", 128)} {
		claim(t, m, node, "a")
	}
}

// TestSettings: a Manager that can't work says so.
func TestSettings(t *testing.T) {
	dir := t.TempDir()
	for name, m := range map[string]*claims.Manager{
		"no folder":     {},
		"negative skew": {Dir: dir, Skew: -1},
	} {
		_, claimErr := m.Claim(t.Context(), "1", "a")
		_, reapErr := m.Reap(t.Context())
		_, activeErr := m.Active()
		for _, err := range []error{claimErr, reapErr, activeErr, m.Release(t.Context(), "1", "a")} {
			wantErr(t, err, lock.ErrInvalidName, name)
		}
	}
	if entries, _ := os.ReadDir(dir); len(entries) > 0 {
		t.Errorf("written: %v", entries)
	}

	missing := &claims.Manager{Dir: filepath.Join(dir, "missing")}
	_, refreshErr := missing.Refresh(t.Context(), "1", "a")
	_, reapErr := missing.Reap(t.Context())
	_, activeErr := missing.Active()
	for _, err := range []error{refreshErr, missing.Release(t.Context(), "1", "a"), reapErr, activeErr} {
		if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), missing.Dir) {
			t.Errorf("a folder that is missing: %v", err)
		}
	}
	that(t, !exists(missing.Dir), "the folder was made")
	noErr(t, errOf(missing.Claim(t.Context(), "1", "a")), "the first claim of a proof")
	nowhere := &claims.Manager{Dir: filepath.Join(dir, "no", "proof")}
	if _, err := nowhere.Claim(t.Context(), "1", "a"); !errors.Is(err, fs.ErrNotExist) || exists(filepath.Join(dir, "no")) {
		t.Errorf("a folder that is nowhere: %v", err)
	}
	empty := &claims.Manager{Dir: dir}
	if active, err := empty.Active(); err != nil || len(active) != 0 || exists(filepath.Join(dir, "ledger")) {
		t.Errorf("a proof without a ledger: %v, %v", active, err)
	}
}
