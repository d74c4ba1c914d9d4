package tests

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/repolock"
)

// agency is the agency command's lock, written from its specification and nothing else: a file
// made with O_EXCL; stale if its pid is not alive, or it is older than two hours; then removed,
// by its path, and tried again, three times. It knows no kernel lock, and no marker.
type agency struct{ path string }

var errAgencyLocked = errors.New("locked")

func (a agency) lock() (unlock func() error, err error) {
	if err := os.MkdirAll(filepath.Dir(a.path), 0o755); err != nil {
		return nil, err
	}
	for range 3 {
		f, err := os.OpenFile(a.path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err == nil {
			err = json.NewEncoder(f).Encode(map[string]any{"pid": os.Getpid(), "created_at": time.Now(), "cmd": "push"})
			if err := errors.Join(err, f.Close()); err != nil {
				return nil, err
			}
			return a.unlock, nil
		} else if !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		if !a.stale() {
			return nil, errAgencyLocked
		}
		if err := a.unlock(); err != nil {
			return nil, err
		}
	}
	return nil, errAgencyLocked
}

func (a agency) stale() bool {
	var info struct {
		PID       int       `json:"pid"`
		CreatedAt time.Time `json:"created_at"`
	}
	data, err := os.ReadFile(a.path)
	if err != nil || json.Unmarshal(data, &info) != nil || info.CreatedAt.IsZero() {
		file, err := os.Stat(a.path)
		return err == nil && time.Since(file.ModTime()) > 2*time.Hour
	}
	return errors.Is(syscall.Kill(info.PID, 0), syscall.ESRCH) || time.Since(info.CreatedAt) > 2*time.Hour
}

func (a agency) unlock() error {
	if err := os.Remove(a.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func init() { roles["agency"] = agencyRole }

// agencyRole locks and unlocks as it is told, by the agency's code, or by ours: what it is
// told is "lock", "unlock" and "add", which adds one to the number beside the lock, under it.
func agencyRole(args []string) error {
	dir, ours := args[0], args[1] == "ours"
	a := agency{filepath.Join(dir, "repos", "r", ".lock")}
	take := func() (func() error, error) {
		if !ours {
			return a.lock()
		}
		unlock, err := repolock.NewRepoLock(dir).Lock("r", "push")
		if locked := new(lock.LockedError); errors.As(err, &locked) {
			err = errAgencyLocked
		}
		return unlock, err
	}
	var unlock func() error
	for orders := bufio.NewScanner(os.Stdin); orders.Scan(); {
		switch orders.Text() {
		case "lock":
			var err error
			if unlock, err = take(); err != nil {
				fmt.Println(err)
				continue
			}
			fmt.Println("had")
		case "unlock":
			fmt.Println(unlock())
		case "add":
			for {
				unlock, err := take()
				if err == errAgencyLocked {
					time.Sleep(100 * time.Microsecond)
					continue
				} else if err != nil {
					return err
				}
				counter := filepath.Join(dir, "counter")
				text, err := os.ReadFile(counter)
				n, _ := strconv.Atoi(string(text))
				if err := errors.Join(err, os.WriteFile(counter, []byte(strconv.Itoa(n+1)), 0o600), unlock()); err != nil {
					return err
				}
				break
			}
			fmt.Println("added")
		}
	}
	return nil
}

// TestAgency: while nobody dies, the agency's own lock and ours exclude each other, and
// nothing of what they add to one number is lost.
func TestAgency(t *testing.T) { // guards: O4
	const each = 100
	dir := t.TempDir()
	check(t, os.WriteFile(filepath.Join(dir, "counter"), []byte("0"), 0o600))
	var all sync.WaitGroup
	for _, side := range []string{"agency", "ours", "agency", "ours"} {
		c := testkit.Start(t, "agency", dir, side)
		all.Go(func() {
			for range each {
				c.Order("add")
				if line, ok := c.Line(); line != "added" {
					t.Errorf("%s: %q, %t", side, line, ok)
					return
				}
			}
		})
	}
	all.Wait()
	if text, err := os.ReadFile(filepath.Join(dir, "counter")); err != nil || string(text) != strconv.Itoa(4*each) {
		t.Errorf("the number is %s, %v; want %d", text, err, 4*each)
	}
}

// TestAgency_Dead: each takes over from the other's dead, and from nobody who lives. When both
// come for one dead at once, the agency may remove the file that we have made meanwhile, as
// it does not look again: then our release says so. That we remove one of theirs takes
// two adjacent system calls of ours; how often that was is told.
func TestAgency_Dead(t *testing.T) { // guards: O4
	const rounds = 200
	dir := t.TempDir()
	path := filepath.Join(dir, "repos", "r", ".lock")
	theirs, ours := testkit.Start(t, "agency", dir, "agency"), testkit.Start(t, "agency", dir, "ours")
	for _, side := range []string{"agency", "ours"} {
		dead := testkit.Start(t, "agency", dir, side)
		dead.Do("lock", "had")
		theirs.Do("lock", "locked")
		ours.Do("lock", "locked")
		dead.Kill()
		theirs.Do("lock", "had")
		ours.Do("lock", "locked")
		theirs.Do("unlock", "<nil>")

		dead = testkit.Start(t, "agency", dir, side)
		dead.Do("lock", "had")
		dead.Kill()
		ours.Do("lock", "had")
		theirs.Do("lock", "locked")
		ours.Do("unlock", "<nil>")
	}

	both, robbedUs, robbedThem := 0, 0, 0
	for range rounds {
		writeWhole(t, path, `{"pid":2147483646,"created_at":"2026-01-02T03:04:05Z"}`)
		theirs.Order("lock")
		ours.Order("lock")
		them, us := theirs.Answer() == "had", ours.Answer() == "had"
		if !them && !us {
			continue // each was in the other's way
		}
		var claim struct {
			Holdfast int `json:"holdfast"`
			PID      int `json:"pid"`
		}
		data := must(os.ReadFile(path))(t)
		check(t, json.Unmarshal(data, &claim))
		said := "<nil>"
		if us {
			said = ours.Say("unlock")
		}
		switch {
		case them && us && claim.Holdfast == 0:
			both, robbedUs = both+1, robbedUs+1
			contains(t, said, lock.ErrLost.Error(), "they have removed ours, and our release says")
		case them && us:
			both, robbedThem = both+1, robbedThem+1
		case said != "<nil>":
			t.Errorf("our release says %s", said)
		}
		if them && !(us && claim.Holdfast == 1) && !exists(path) {
			t.Error("our release has removed theirs")
		}
		if them {
			theirs.Do("unlock", "<nil>")
		}
	}
	t.Logf("in %d races for one dead, both had it in %d: in %d they removed ours, in %d we removed theirs", rounds, both, robbedUs, robbedThem)
}
