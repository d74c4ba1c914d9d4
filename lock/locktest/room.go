package locktest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lock"
)

// A room is a folder that only one worker may be in, or any number of readers. It finds out
// in three ways that do not depend on each other: a log to which everybody appends on the
// way in and out, in the kernel's order; a note of the worker inside; and a counter that
// loses counts when two raise it at once.
type room struct {
	Dir string `json:"dir"`
	// Who is the name of one worker in the log: one word.
	Who string `json:"who"`
	// Doomed says that Who may be killed inside.
	Doomed bool `json:"doomed,omitempty"`
}

func (s *subtest) room() room { return room{Dir: s.TempDir(), Who: "parent"} }

// as is the same room for another worker.
func (r room) as(who string) *room {
	r.Who = who
	return &r
}

func (r room) doomed(who string) *room {
	r.Who, r.Doomed = who, true
	return &r
}

const doomedPrefix = "doomed-"

func (r room) name() string {
	if r.Doomed {
		return doomedPrefix + r.Who
	}
	return r.Who
}

// The note and the counter have a fixed width, and are written in one go. So a worker that
// is killed leaves the old text, or the new.
const width = 40

func (r room) write(file, text string) error {
	f, err := os.OpenFile(filepath.Join(r.Dir, file), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(fmt.Appendf(nil, "%-*s", width, text), 0)
	return errors.Join(err, f.Close())
}

func (r room) read(file string) (string, error) {
	text, err := os.ReadFile(filepath.Join(r.Dir, file))
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(text)), err
}

func (r room) log(event string, fence int64) error {
	f, err := os.OpenFile(filepath.Join(r.Dir, "log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s %s %d\n", event, r.name(), fence)
	return errors.Join(err, f.Close())
}

// alone is work under an exclusive lock.
func (r room) alone(fence int64) error {
	if err := r.log("in", fence); err != nil {
		return err
	}
	occupant, err := r.read("occupant")
	if err != nil {
		return err
	}
	if occupant != "" && !strings.HasPrefix(occupant, doomedPrefix) {
		return fmt.Errorf("%s is not alone: %s is in", r.name(), occupant)
	}
	if err := r.write("occupant", r.name()); err != nil {
		return err
	}
	text, err := r.read("count")
	if err != nil {
		return err
	}
	count, _ := strconv.Atoi(text)
	if err := r.write("count", fmt.Sprint(count+1)); err != nil {
		return err
	}
	occupant, err = r.read("occupant")
	if err != nil {
		return err
	}
	if occupant != r.name() {
		return fmt.Errorf("%s is not alone: %q has come in", r.name(), occupant)
	}
	if err := r.write("occupant", ""); err != nil {
		return err
	}
	return r.log("out", fence)
}

// together is work under a shared lock.
func (r room) together() error {
	if err := r.log("read", 0); err != nil {
		return err
	}
	occupant, err := r.read("occupant")
	if err != nil {
		return err
	}
	if occupant != "" && !strings.HasPrefix(occupant, doomedPrefix) {
		return fmt.Errorf("%s reads while %s is in", r.name(), occupant)
	}
	return r.log("unread", 0)
}

// event is a line of the log.
type event struct {
	what, who string
	fence     int64
}

func (r room) events() ([]event, error) {
	text, err := os.ReadFile(filepath.Join(r.Dir, "log"))
	if err != nil {
		return nil, err
	}
	var events []event
	for line := range strings.Lines(string(text)) {
		var e event
		if _, err := fmt.Sscan(line, &e.what, &e.who, &e.fence); err != nil {
			return nil, fmt.Errorf("log: %q: %w", line, err)
		}
		events = append(events, e)
	}
	return events, nil
}

// visits counts how often a worker has gone out.
func (r room) visits() int {
	events, _ := r.events()
	n := 0
	for _, e := range events {
		if e.what == "out" && e.who == r.name() {
			n++
		}
	}
	return n
}

// inspect returns what the log shows to be wrong, and how many have left.
func (r room) inspect() (left int, problems []string) {
	events, err := r.events()
	if err != nil {
		return 0, []string{err.Error()}
	}
	last := map[string]int{} // each one's last event
	for i, e := range events {
		last[e.who] = i
	}
	inside := map[string]string{} // workers, and how they are in
	var fence int64
	for i, e := range events {
		if e.what == "out" || e.what == "unread" {
			delete(inside, e.who)
			if e.what == "out" {
				left++
			}
			continue
		}
		for who, how := range inside {
			gone := strings.HasPrefix(who, doomedPrefix) && last[who] < i
			if !gone && (how == "in" || e.what == "in") {
				problems = append(problems, fmt.Sprintf("event %d: %s comes (%s) while %s is there (%s)", i, e.who, e.what, who, how))
			}
		}
		inside[e.who] = e.what
		if e.what == "in" && e.fence != 0 {
			if e.fence <= fence {
				problems = append(problems, fmt.Sprintf("event %d: fence %d of %s is not above %d", i, e.fence, e.who, fence))
			}
			fence = e.fence
		}
	}
	return left, problems
}

// checkRoom fails the test if the room has seen two at once. killed is how many workers
// were killed: each may have counted and not gone out.
func (s *subtest) checkRoom(r room, killed int) (left int) {
	s.Helper()
	left, problems := r.inspect()
	for _, problem := range problems {
		s.Error(problem)
	}
	text, err := r.read("count")
	if err != nil {
		s.Fatal(err)
	}
	if count, _ := strconv.Atoi(text); count < left || count > left+killed {
		s.Errorf("%d were in by the log, %d of them killed; %d by the counter", left, killed, count)
	}
	return left
}

// work enters the room again and again, each time under the lock.
func work(ctx context.Context, l lock.Locker, o order) error {
	for range o.Rounds {
		held, err := l.Acquire(ctx, o.Key)
		if err != nil {
			return err
		}
		fence, err := held.Fence()
		if err := errors.Join(err, o.Room.alone(fence), held.Release()); err != nil {
			return err
		}
	}
	return nil
}

// read is work for readers.
func read(ctx context.Context, l lock.SharedLocker, o order) error {
	for range o.Rounds {
		held, err := l.AcquireShared(ctx, o.Key)
		if err != nil {
			return err
		}
		if err := errors.Join(o.Room.together(), held.Release()); err != nil {
			return err
		}
	}
	return nil
}

// workers runs functions in goroutines, and waits for them. Their errors fail the test.
func (s *subtest) workers(fns ...func() error) {
	s.Helper()
	came := make(chan error, len(fns))
	for _, fn := range fns {
		go func() { came <- fn() }()
	}
	for range fns {
		select {
		case err := <-came:
			if err != nil {
				s.Error(err)
			}
		case <-time.After(s.engine.Patience):
			s.Fatal("a goroutine does not come to an end")
		}
	}
}
