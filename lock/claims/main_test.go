package claims_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock/claims"
	"github.com/holdfast-go/holdfast/lock/ledger"
)

// roles read orders from standard input, a line each, and answer on standard
// output, a line each.
var roles = map[string]func(dir string, orders *bufio.Scanner){
	"agent": agent,
}

func TestMain(m *testing.M) {
	testkit.Main(m, func(role string, args []string) { roles[role](args[0], bufio.NewScanner(os.Stdin)) })
}

var (
	play    = testkit.Start
	check   = testkit.Check
	that    = testkit.That
	errOf   = testkit.ErrOf
	noErr   = testkit.NoErr
	wantErr = testkit.WantErr
	exists  = testkit.Exists
)

func equal[T comparable](t testing.TB, got, want T, what ...any) {
	t.Helper()
	testkit.Equal(t, got, want, what...)
}

func must[T any](got T, err error) func(testing.TB) T { return testkit.Must(got, err) }

// agent does what it is told, at the fixed time, or as much later as it is told.
func agent(dir string, orders *bufio.Scanner) {
	c := newClock()
	m := &claims.Manager{Dir: dir, Now: c.now, Ledger: ledger.Ledger{Timeout: -1}}
	ctx := context.Background()
	for orders.Scan() {
		var err error
		var ended []claims.Claim
		switch order := strings.Fields(orders.Text()); order[0] {
		case "look":
			_, err = m.Active()
		case "later":
			d, _ := time.ParseDuration(order[1])
			c.add(d)
		case "claim":
			_, err = m.Claim(ctx, order[1], order[2])
		case "release":
			err = m.Release(ctx, order[1], order[2])
		case "reap":
			ended, err = m.Reap(ctx)
		}
		switch {
		case err == nil:
			fmt.Println("ok", len(ended))
		case errors.Is(err, claims.ErrClaimed):
			fmt.Println("claimed")
		case errors.Is(err, claims.ErrFiles):
			fmt.Println("files")
		default:
			fmt.Println("error:", err)
		}
	}
}

// start is when the clocks of these tests begin.
var start = time.Date(2024, 1, 15, 10, 30, 0, 123456789, time.UTC)

// clock stands still unless it is moved.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: start} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// proof makes a folder with a clock, and a Manager for it.
func proof(t *testing.T) (dir string, c *clock, m *claims.Manager) {
	t.Helper()
	dir, c = t.TempDir(), newClock()
	return dir, c, manager(dir, c)
}

// manager makes one more Manager, which does not sync, so that tests are fast.
func manager(dir string, c *clock) *claims.Manager {
	return &claims.Manager{Dir: dir, Now: c.now, Ledger: ledger.Ledger{NoSync: true, Timeout: -1}}
}

func claim(t *testing.T, m *claims.Manager, node, owner string) claims.Claim {
	t.Helper()
	return must(m.Claim(t.Context(), node, owner))(t)
}

func lockFile(dir, node string) string { return filepath.Join(dir, "locks", node+".lock") }

func write(t *testing.T, path, contents string) {
	t.Helper()
	check(t, os.MkdirAll(filepath.Dir(path), 0o777))
	check(t, os.WriteFile(path, []byte(contents), 0o644))
}

func read(t *testing.T, path string) string {
	t.Helper()
	return string(must(os.ReadFile(path))(t))
}

// appendRaw appends an event as another program would.
func appendRaw(t *testing.T, dir, event string) {
	t.Helper()
	write(t, filepath.Join(dir, "ledger", fmt.Sprintf("event-%06d.json", len(events(t, dir))+1)), event)
}

// entry is an event, or a claim's file, as the published protocol describes it.
type entry struct {
	Type       string    `json:"type"`
	Timestamp  time.Time `json:"timestamp"`
	NodeID     string    `json:"node_id"`
	Owner      string    `json:"owner"`
	AcquiredAt time.Time `json:"acquired_at"`
	ExpiresAt  time.Time `json:"expires_at"`
}

// events reads the ledger with nothing of the code under test.
func events(t *testing.T, dir string) (all []entry) {
	t.Helper()
	for n := 1; ; n++ {
		data, err := os.ReadFile(filepath.Join(dir, "ledger", fmt.Sprintf("event-%06d.json", n)))
		if errors.Is(err, fs.ErrNotExist) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		var e entry
		_ = json.Unmarshal(data, &e) // not every event is one of ours
		all = append(all, e)
	}
}

// story is the events in short, such as "acquired 1 a".
func story(t *testing.T, dir string) (lines []string) {
	t.Helper()
	for _, e := range events(t, dir) {
		lines = append(lines, strings.TrimPrefix(e.Type, "lock_")+" "+e.NodeID+" "+e.Owner)
	}
	return lines
}

func wantStory(t *testing.T, dir string, want ...string) {
	t.Helper()
	if got := story(t, dir); !slices.Equal(got, want) {
		t.Errorf("the ledger tells\n%q, want\n%q", got, want)
	}
}

// replay is the published pseudocode: what the events make of the claims. Only that a refresh
// leaves acquired_at is ours.
func replay(t *testing.T, dir string) map[string]claims.Claim {
	t.Helper()
	locks := map[string]claims.Claim{}
	for _, e := range events(t, dir) {
		switch e.Type {
		case "lock_acquired":
			c := claims.Claim{NodeID: e.NodeID, Owner: e.Owner, AcquiredAt: e.Timestamp, ExpiresAt: e.ExpiresAt}
			if before, ok := locks[e.NodeID]; ok && before.Owner == e.Owner && before.AcquiredAt.Before(c.AcquiredAt) {
				c.AcquiredAt = before.AcquiredAt // a refresh
			}
			locks[e.NodeID] = c
		case "lock_released", "lock_reaped":
			delete(locks, e.NodeID)
		}
	}
	return locks
}

// inFiles reads all files in locks/, and fails on any that is not a claim.
func inFiles(t *testing.T, dir string) map[string]claims.Claim {
	t.Helper()
	locks := map[string]claims.Claim{}
	entries, err := os.ReadDir(filepath.Join(dir, "locks"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for _, entry := range entries {
		var c claims.Claim
		if err := json.Unmarshal([]byte(read(t, filepath.Join(dir, "locks", entry.Name()))), &c); err != nil {
			t.Fatalf("%s: %v", entry.Name(), err)
		}
		if c.NodeID+".lock" != entry.Name() {
			t.Fatalf("%s is of node %q", entry.Name(), c.NodeID)
		}
		locks[c.NodeID] = c
	}
	return locks
}
