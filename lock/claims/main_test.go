package claims_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock/claims"
	"github.com/holdfast-go/holdfast/lock/ledger"
)

// roleVar tells the test binary to play a part instead of running tests.
const roleVar = "HOLDFAST_TEST_ROLE"

// roles read orders from standard input, a line each, and answer on standard
// output, a line each.
var roles = map[string]func(dir string, orders *bufio.Scanner){
	"agent": agent,
}

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVar); role != "" {
		roles[role](os.Getenv("HOLDFAST_TEST_DIR"), bufio.NewScanner(os.Stdin))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

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

// child is a process that plays a role.
type child struct {
	t       *testing.T
	cmd     *exec.Cmd
	orders  io.WriteCloser
	answers *bufio.Scanner
}

// play starts a process, prepared by prepare, if that is given.
func play(t *testing.T, role, dir string, prepare ...func(*exec.Cmd)) *child {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &child{t: t, cmd: exec.Command(exe)}
	c.cmd.Env = append(os.Environ(), roleVar+"="+role, "HOLDFAST_TEST_DIR="+dir)
	c.cmd.Stderr = os.Stderr
	for _, p := range prepare {
		p(c.cmd)
	}
	if c.orders, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.answers = bufio.NewScanner(out)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.cmd.Process.Kill()
		c.cmd.Wait()
	})
	return c
}

func (c *child) tell(order string) { fmt.Fprintln(c.orders, order) }

func (c *child) hear() string {
	c.t.Helper()
	if !c.answers.Scan() {
		c.t.Fatalf("the child is gone: %v", c.answers.Err())
	}
	return c.answers.Text()
}

func (c *child) ask(order string) string {
	c.t.Helper()
	c.tell(order)
	return c.hear()
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
	c, err := m.Claim(t.Context(), node, owner)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func lockFile(dir, node string) string { return filepath.Join(dir, "locks", node+".lock") }

func write(t *testing.T, path, contents string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(contents), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
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
