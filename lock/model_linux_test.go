package lock_test

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
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/platform"
)

func init() { roles["walker"] = walker }

// walker is a process of the model (tests/model). It acquires, holds and releases, and pauses
// at each hook, which it tells: "at STEP". It goes on when it is told to.
//
//	begin ROLE PATH [tidy]   it starts, and goes to the first hook
//	go                       it goes to the next one
func walker(_ string, orders *bufio.Scanner) {
	at, goOn := make(chan string), make(chan bool)
	pause := func(step string) {
		if !lock.Passes(step) {
			at <- step
			<-goOn
		}
	}
	for orders.Scan() {
		if fields := strings.Fields(orders.Text()); fields[0] == "begin" {
			f := lock.File{Path: fields[2], Cmd: "walker", StaleAfter: -1, Tidy: len(fields) > 3}.Park(pause)
			lock.NeverLookAgain(f.Path)
			go func() { at <- walk(f, fields[1], pause) }()
		} else {
			goOn <- true
		}
		fmt.Println("at", <-at)
	}
}

// walk acquires, pauses as the holder, and releases. It returns where it ends.
func walk(f lock.File, role string, pause func(step string)) (end string) {
	acquire := map[string]func(context.Context) (*lock.FileHold, error){
		"w": f.Acquire, "r": f.AcquireShared, "t": f.TryAcquire, "u": f.TryAcquireShared,
	}[role]
	held, err := acquire(context.Background())
	var locked *lock.ErrLocked
	switch {
	case errors.As(err, &locked):
		return "gave up"
	case err != nil:
		return "error: " + err.Error()
	}
	pause("held")
	if err := held.Release(); err != nil && !errors.Is(err, lock.ErrLost) {
		return "error: " + err.Error()
	}
	return "done"
}

// TestModel replays walks through the model: real processes go from hook to hook in the order
// of the walk, hands do what they do in it, and after each step the process is where the
// model says, and on disk is what the model says, with the kernel locks of whom it says.
//
// The walks are those in testdata/model.txt, which the tests of tests/model write, or those in
// the file that HOLDFAST_WALKS names.
func TestModel(t *testing.T) {
	needsKernelList(t)
	needsMarks(t)
	needsTurnstile(t)
	needsLeases(t)
	path := os.Getenv("HOLDFAST_WALKS")
	if path == "" {
		path = filepath.Join("testdata", "model.txt")
	}
	data, err := os.ReadFile(path)
	check(t, err)
	crew := &crew{}
	walks := strings.Split(strings.TrimSpace(string(data)), "\ncase ")
	moves, failed := 0, 0
	for i, w := range walks {
		w = strings.TrimPrefix(w, "case ")
		head, rest, _ := strings.Cut(w, "\n")
		lines := strings.Split(strings.TrimSpace(rest), "\n")
		moves += len(lines)
		if err := replay(t, crew, head, lines); err != nil {
			t.Errorf("walk %d, %s: %v", i+1, head, err)
			if failed++; failed == 10 {
				t.Fatal("and so on")
			}
		}
	}
	t.Logf("%d walks, %d moves", len(walks), moves)
}

// crew is processes that have ended a walk, and can begin another.
type crew struct{ idle []*child }

// replay replays one walk.
func replay(t *testing.T, crew *crew, head string, lines []string) error {
	head, _, _ = strings.Cut(head, " # ")
	fields := strings.Fields(head)
	roles, tidy := fields[0], ""
	r := &replayed{path: filepath.Join(t.TempDir(), ".lock"), who: map[int]string{}}
	for _, flag := range fields[1:] {
		switch flag {
		case "tidy":
			tidy = " tidy"
		case "dead-file":
			leaveAt(t, r.path, "held")
		case "dead-marker":
			if slices.Contains(fields, "dead-file") {
				leaveAt(t, r.path, lock.StepDeadTold)
			} else {
				leaveAt(t, r.path, "held")
				leaveAt(t, r.path, lock.StepDeadRemoved)
			}
		}
	}
	// The model begins without a sibling, whatever was left.
	if err := os.Remove(r.path + ".flock"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	procs := make([]*child, len(roles))
	was := make([]string, len(roles)) // where those of other programs were before
	defer func() {
		for _, p := range procs {
			if p != nil && !slices.Contains(crew.idle, p) {
				p.Kill()
			}
		}
	}()
	for i, line := range lines {
		move, disk, _ := strings.Cut(line, " | ")
		who, at, _ := strings.Cut(move, " ")
		switch {
		case who == "-":
			check(t, hand[at](r.path))
		case at == "stopped":
			check(t, procs[who[0]-'A'].Cmd.Process.Signal(syscall.SIGSTOP))
		case strings.Contains("FKE", roles[who[0]-'A':who[0]-'A'+1]):
			n := who[0] - 'A'
			if procs[n] == nil { // somebody whose pid it gives
				procs[n] = start(t, "walker", "")
				r.who[procs[n].Cmd.Process.Pid] = who
			}
			check(t, r.other(at, was[n], procs[n].Cmd.Process.Pid))
			was[n] = at
		case at == "killed":
			n := who[0] - 'A'
			if procs[n] != nil {
				procs[n].Kill()
			}
		default:
			n := who[0] - 'A'
			order := "go"
			if procs[n] == nil {
				procs[n] = crew.start(t)
				r.who[procs[n].Cmd.Process.Pid] = who
				order = "begin " + roles[n:n+1] + " " + r.path + tidy
			}
			procs[n].Order(order)
			if said, ok := procs[n].Line(); said != "at "+at {
				return fmt.Errorf("line %d, %s: it is %q (it answers: %v)", i+1, move, said, ok)
			}
			if at == "done" || at == "gave up" {
				crew.idle = append(crew.idle, procs[n])
			}
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
	return nil
}

// start returns a walker. It belongs to the whole test, and not to one walk.
func (c *crew) start(t *testing.T) *child {
	if n := len(c.idle); n > 0 {
		p := c.idle[n-1]
		c.idle = c.idle[:n-1]
		return p
	}
	return start(t, "walker", "")
}

// leaveAt has a process die at a hook.
func leaveAt(t *testing.T, path, step string) {
	t.Helper()
	p := start(t, "walker", "")
	for said := p.Say("begin w " + path); said != "at "+step; said = p.Say("go") {
		if said == "at done" {
			t.Fatalf("it never came to %s", step)
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

// replayed is a walk that is replayed.
type replayed struct {
	path string
	who  map[int]string // by pid
}

// other does what a program does that does not know the protocol, on its way from one place of
// the model to the next.
func (r *replayed) other(at, was string, pid int) error {
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
	case "comes", "the dead claim removed":
		return os.Remove(r.path)
	case "holds":
		if was == "its file created" {
			return os.WriteFile(r.path, claim, 0o600)
		}
		return os.Remove(marker)
	case "done":
		if was == "its file looked at" {
			return os.Remove(r.path)
		}
	case "gave up":
		if was == "has its marker for nothing" {
			return os.Remove(marker)
		}
	}
	return nil // it only looks
}

// disk says what is on disk, in the model's words.
func (r *replayed) disk(t *testing.T) string {
	t.Helper()
	locks, err := platform.ListKernelLocks()
	check(t, err)
	one := func(path, what string) string {
		id, err := platform.IdentifyFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return what + " absent"
		}
		check(t, err)
		if what == "sibling" {
			what += " there"
		} else {
			data, err := os.ReadFile(path)
			check(t, err)
			var claim lock.LockInfo
			switch {
			case len(data) == 0:
				what += " empty"
			case json.Unmarshal(data, &claim) != nil:
				what += " half"
			case r.who[claim.PID] == "":
				what += " whole of another"
			default:
				what += " whole of " + r.who[claim.PID]
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
	f, err := platform.Open(path, os.O_RDONLY)
	check(t, err)
	defer f.Close()
	taken, err := f.TurnstileTaken()
	check(t, err)
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
