package lock_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/platform"
	"golang.org/x/sys/unix"
)

// TestModel replays walks through the model: real processes go from hook to hook in the order
// of the walk, hands do what they do in it, and after each step the process is where the
// model says, and on disk is what the model says, with the kernel locks of whom it says.
//
// The walks are those in testdata/model.txt, which the tests of tests/model write, or those in
// the file that HOLDFAST_WALKS names: one in three of the former, and of the latter as many as there is time for by HOLDFAST_WALKS_FOR.
func TestModel(t *testing.T) { // guards: A4
	needsKernelList(t)
	needsMarks(t)
	needsTurnstile(t)
	needsLeases(t)
	path := os.Getenv("HOLDFAST_WALKS")
	one := 1 // in how many
	if path == "" {
		one = 3
		path = filepath.Join("testdata", "model.txt")
	}
	data := must(os.ReadFile(path))(t)
	crew := &crew{t: t}
	began := time.Now()
	walks := strings.Split(strings.TrimSpace(string(data)), "\ncase ")
	bound := must(time.ParseDuration(cmp.Or(os.Getenv("HOLDFAST_WALKS_FOR"), "1h")))(t)
	done, moves, failed, again := 0, 0, 0, 0
	for i, w := range walks {
		if time.Since(began) > bound {
			break
		}
		if !testkit.Sample(one) {
			continue
		}
		done++
		w = strings.TrimPrefix(w, "case ")
		head, rest, _ := strings.Cut(w, "\n")
		lines := strings.Split(strings.TrimSpace(rest), "\n")
		moves += len(lines)
		var err error
		for range 3 {
			if strings.Contains(rest, cantRemove) { // which may be skipped by itself
				t.Run(head, func(t *testing.T) { err = replay(t, crew, head, lines) })
			} else {
				err = replay(t, crew, head, lines)
			}
			if !errors.Is(err, errWaits) {
				break
			}
			again++
			t.Logf("walk %d, %s: %v: once more", i+1, head, err)
		}
		if err != nil {
			t.Errorf("walk %d, %s: %v\n%s", i+1, head, err, rest)
			if failed++; failed == 10 {
				t.Fatal("and so on")
			}
		}
	}
	t.Logf("%d of %d walks, %d moves, %d times again", done, len(walks), moves, again)
	that(t, again <= 2+done/100, "%d times somebody waited who need not have", again)
}

// errWaits is of a walk in which a process waits that need not. That may be so once: no hook is
// where a wait that was left behind is granted, and it has the lock for an instant.
var errWaits = errors.New("it waits")

// crew is processes that have ended a walk, and can begin another.
type crew struct {
	t    *testing.T
	idle []*child
}

// A replayed walk.
type replayed struct {
	t     *testing.T
	crew  *crew
	path  string
	roles string
	begin string         // what a walker is told of the case
	who   map[int]string // by pid
	procs []*walkerOf
	flock *os.File // the sibling, if the walk has a flock(1)
}

// walkerOf is one process of a walk.
type walkerOf struct {
	*child          // nil before it has come
	at     string   // where it is
	waited bool     // and may have left a wait behind
	kept   *os.File // its lock file, which a child has after its death
}

// replay replays one walk.
func replay(t *testing.T, crew *crew, head string, lines []string) error {
	head, _, _ = strings.Cut(head, " # ")
	fields := strings.Fields(head)
	r := &replayed{t: t, crew: crew, path: filepath.Join(t.TempDir(), ".lock"), roles: fields[0], who: map[int]string{}}
	for _, flag := range fields[1:] {
		switch flag {
		case "tidy", "fence":
			r.begin += " " + flag
		case "dead-file":
			r.leaveAt("held")
		case "dead-marker":
			if slices.Contains(fields, "dead-file") {
				r.leaveAt(lock.StepDeadTold)
			} else {
				r.leaveAt("held")
				r.leaveAt(lock.StepDeadRemoved)
			}
		}
	}
	// The model begins without a sibling, whatever was left.
	if err := os.Remove(r.path + ".flock"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for range r.roles {
		r.procs = append(r.procs, &walkerOf{})
	}
	defer r.end()
	for i, line := range lines {
		move, disk, _ := strings.Cut(line, " | ")
		if err := r.move(move); err != nil {
			return fmt.Errorf("line %d, %s: %w", i+1, move, err)
		}
		// The kernel's list may miss a lock while others, anywhere, come and go.
		got := r.disk(t)
		for try := 0; got != visible(disk) && try < 1000; try++ {
			got = r.disk(t)
		}
		if got != visible(disk) {
			return fmt.Errorf("line %d, %s: on disk is\n%s; want\n%s", i+1, move, got, visible(disk))
		}
	}
	return r.fencesGrow()
}

// move is one line of a walk.
func (r *replayed) move(move string) error {
	who, at, _ := strings.Cut(move, " ")
	if who == "-" {
		return hand[at](r.path)
	}
	n := int(who[0] - 'A')
	p, role := r.procs[n], r.roles[n:n+1]
	was := p.at
	p.at = at
	switch {
	case role == "L":
		return r.flock1(at)
	case at == "stopped":
		p.Stop()
		return nil
	case at == "killed":
		if p.child != nil {
			p.Kill()
		}
		_ = p.kept.Close()
		return nil
	case at == "dead, its child has the files":
		p.kept = os.NewFile(uintptr(inherit(r.t, p.Cmd.Process.Pid, r.path)), r.path)
		p.Kill()
		return nil
	case at == "out": // it comes again
		return nil
	case strings.Contains("FKE", role):
		if p.child == nil { // somebody whose pid it gives
			r.starts(n, start(r.t, "walker", ""))
		}
		return r.other(at, was, p.Cmd.Process.Pid)
	}
	order := "go"
	switch {
	case p.child == nil:
		r.starts(n, r.crew.start())
		fallthrough
	case was == "out":
		order = "begin " + role + " " + r.path + r.begin
	case at == "another program":
		order = "exec"
	}
	want, cancelled := strings.CutPrefix(at, "is cancelled, ")
	if cancelled {
		order = "cancel"
	}
	want, fails := strings.CutPrefix(want, cantRemove)
	if fails {
		defer withoutRemoval(r.t, r.path)()
	}
	p.Order(order)
	said, ok := p.Line()
	p.at, _ = strings.CutPrefix(said, "at ")
	p.waited = p.waited || p.at == lock.StepParks
	switch {
	case p.at == want:
		return nil
	case p.at == lock.StepParks || !ok:
		return fmt.Errorf("%w: %q (it answers: %v)", errWaits, said, ok)
	}
	return fmt.Errorf("it is %q", said)
}

func (r *replayed) starts(n int, c *child) {
	r.procs[n].child = c
	r.who[c.Cmd.Process.Pid] = string(rune('A' + n))
}

// end keeps those who have come to their end for other walks.
func (r *replayed) end() {
	for _, p := range r.procs {
		switch {
		case p.child == nil:
		case !p.waited && (p.at == "done" || p.at == "gave up"):
			r.crew.idle = append(r.crew.idle, p.child)
		default:
			p.Kill()
		}
		_ = p.kept.Close()
	}
	_ = r.flock.Close()
}

const cantRemove = "can't remove its file, "

// withoutRemoval keeps files from being removed from a lock's folder.
func withoutRemoval(t *testing.T, path string) (reset func()) {
	folder := filepath.Dir(path)
	if os.Geteuid() == 0 {
		return setAttribute(t, folder, unix.STATX_ATTR_APPEND)
	}
	check(t, os.Chmod(folder, 0o500))
	return func() { check(t, os.Chmod(folder, 0o700)) }
}

// flock1 does what flock(1) does with the sibling.
func (r *replayed) flock1(at string) (err error) {
	switch at {
	case "waits at the sibling":
		r.flock, err = os.OpenFile(r.path+".flock", os.O_RDONLY|os.O_CREATE, 0o600)
		r.who[os.Getpid()] = string(rune('A' + strings.Index(r.roles, "L")))
	case "holds the sibling":
		err = unix.Flock(int(r.flock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	case "done", "killed":
		_ = r.flock.Close()
	}
	return err
}

// fencesGrow looks at all fences that were given.
func (r *replayed) fencesGrow() error {
	data, err := os.ReadFile(r.path + ".fences")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	last := ""
	for fence := range strings.Lines(string(data)) {
		if len(fence) < len(last) || len(fence) == len(last) && fence <= last {
			return fmt.Errorf("fence %s after %s", fence, last)
		}
		last = fence
	}
	return err
}

// start returns a walker. It belongs to the whole test, and not to one walk.
func (c *crew) start() *child {
	if n := len(c.idle); n > 0 {
		p := c.idle[n-1]
		c.idle = c.idle[:n-1]
		return p
	}
	return start(c.t, "walker", "")
}

// leaveAt has a process die at a hook.
func (r *replayed) leaveAt(step string) {
	r.t.Helper()
	role := "w"
	if strings.HasPrefix(r.roles, "b") {
		role = "b"
	}
	p := start(r.t, "walker", "")
	for said := p.Say("begin " + role + " " + r.path); said != "at "+step; said = p.Say("go") {
		if said == "at done" {
			r.t.Fatalf("it never came to %s", step)
		}
	}
	p.Kill()
}

// hand is what hands do in the model.
var hand = map[string]func(path string) error{
	"a hand removes the sibling":   func(path string) error { return os.Remove(path + ".flock") },
	"a hand removes the lock file": os.Remove,
	"a hand removes the marker":    func(path string) error { return os.Remove(path + ".reclaim") },
	"a hand renames another file over the sibling": func(path string) error {
		return errors.Join(os.WriteFile(path+".other", nil, 0o600), os.Rename(path+".other", path+".flock"))
	},
	"a hand renames a dead program's claim over the lock file": func(path string) error {
		claim := fmt.Sprintf(`{"pid":%d,"created_at":"2026-01-02T03:04:05Z","cmd":"other"}`, 1<<22-1)
		return errors.Join(os.WriteFile(path+".other", []byte(claim), 0o600), os.Rename(path+".other", path))
	},
}

// other does what a program does that does not know the protocol, on its way from one place of
// the model to the next.
func (r *replayed) other(at, was string, pid int) error {
	gone := func(err error) error {
		if errors.Is(err, fs.ErrNotExist) { // a hand was faster
			return nil
		}
		return err
	}
	claim := fmt.Appendf(nil, `{"pid":%d,"created_at":%q,"cmd":"other"}`, pid, time.Now().UTC().Format(time.RFC3339))
	create := func(path string, data []byte) error {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		_, err = f.Write(data)
		return errors.Join(err, f.Close())
	}
	marker := r.path + ".reclaim"
	switch at {
	case "its file created":
		return create(r.path, nil)
	case "claims, and still has its marker":
		return create(r.path, claim)
	case "its marker made":
		return create(marker, claim)
	case "comes", "the dead claim removed": // whether or not it is there still
		return gone(os.Remove(r.path))
	case "holds":
		if was == "its file created" {
			return os.WriteFile(r.path, claim, 0o600)
		}
		return gone(os.Remove(marker))
	case "done":
		if was == "its file looked at" {
			return gone(os.Remove(r.path))
		}
	case "gave up":
		if was == "has its marker for nothing" {
			return gone(os.Remove(marker))
		}
	}
	return nil // it only looks
}

// disk says what is on disk, in the model's words.
func (r *replayed) disk(t *testing.T) string {
	t.Helper()
	locks := must(platform.ListKernelLocks())(t)
	one := func(path, what string) string {
		id, err := platform.IdentifyFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return what + " absent"
		}
		check(t, err)
		if what == "sibling" {
			what += " there"
		} else {
			data := must(os.ReadFile(path))(t)
			var claim evidence.Claim
			switch {
			case len(data) == 0:
				what += " empty"
			case json.Unmarshal(data, &claim) != nil:
				what += " half"
			default:
				is := " whole of "
				if lock.SaysReleased(data) {
					is = " released of "
				}
				what += is + cmp.Or(r.who[claim.PID], "another")
			}
		}
		var has []string
		for _, pid := range locks.Holders(id) {
			if who := r.who[pid]; !slices.Contains(has, who) {
				has = append(has, who)
			}
		}
		if slices.Sort(has); len(has) > 0 {
			what += " locked by " + strings.Join(has, "")
		}
		if strings.HasPrefix(what, "sibling") {
			what += r.atTurnstile(t, path)
		}
		return what
	}
	return strings.Join([]string{one(r.path+".flock", "sibling"), one(r.path, "lock file"), one(r.path+".reclaim", "marker")}, ", ")
}

// atTurnstile says whether somebody has the turnstile of a sibling.
func (r *replayed) atTurnstile(t *testing.T, path string) string {
	t.Helper()
	f := must(platform.Open(path, os.O_RDONLY))(t)
	defer f.Close()
	taken := must(f.TurnstileTaken())(t)
	if taken {
		return " with its turnstile taken"
	}
	return ""
}

// visible drops from the model's words what can't be seen from outside: who has made a file
// without a claim, whether a lock is shared, and who has the turnstile.
func visible(disk string) string {
	parts := strings.Split(disk, ", ")
	for i, p := range parts {
		p = strings.ReplaceAll(p, "shared by", "locked by")
		if before, _, is := strings.Cut(p, " with "); is {
			p = before + " with its turnstile taken"
		}
		if before, after, is := strings.Cut(p, " empty of "); is {
			if strings.HasPrefix(after, "another") {
				p = before + " empty" + strings.TrimPrefix(after, "another")
			} else {
				p = before + " empty" + after[1:]
			}
		}
		parts[i] = p
	}
	return strings.Join(parts, ", ")
}
