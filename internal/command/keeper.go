package command

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/plainjson"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/platform"
)

// keeperName is the command by which hold starts the keeper of a session.
const keeperName = "session-keeper"

// session is a lock that is kept for an owner.
type session struct {
	held     *lock.FileHold
	owner    int
	watch    *platform.Exit
	expiry   *expiry
	listener net.Listener
	requests chan call
}

// call is a request, and how to answer it.
type call struct {
	request
	answer func(reply)
}

// keep is the keeper: it takes the lock, reports to hold, and keeps the lock until the
// session ends. Its arguments are the owner, and those of hold.
func (a *app) keep(args []string) int {
	// What is said when nobody listens any more must not end the session.
	ignorePipes()
	signals := make(chan os.Signal, 64)
	signal.Notify(signals, caughtSignals()...)
	var owner platform.Process
	if len(args) == 0 || json.Unmarshal([]byte(args[0]), &owner) != nil {
		return exitUsage
	}
	o, code, ok := a.parseHold(args[1:])
	if !ok {
		return code
	}
	watch, err := platform.WatchExit(owner)
	if errors.Is(err, os.ErrProcessDone) {
		err = ownerEnded(owner.PID)
	}
	if err != nil {
		a.say(oneLine(err) + "; no session was begun")
		return exitError
	}
	established, abandoned := a.awaitHold(signals)

	ctx, cancel := context.WithCancelCause(context.Background())
	taken := make(chan struct{})
	go func() {
		select {
		case <-watch.Exited():
			cancel(ownerEnded(owner.PID))
		case <-abandoned:
			cancel(errors.New("who waited has ended"))
		case <-taken:
		}
	}()
	run := runOptions{timed: o.timed, timeout: o.timeout, conflict: exitNotHad, locks: []string{o.path}, undone: "no session was begun"}
	begun := "a session"
	if program := platform.ProgramOf(owner.PID); program != "" && isName(program) {
		begun = "begun by " + program // who is not the owner after a transfer
	}
	file := lock.File{Path: o.path, Cmd: begun, OwnerPID: owner.PID}
	held, code, ok := a.take(ctx, run, files{file}, signals)
	close(taken)
	if !ok {
		return code
	}
	s := &session{held: held[0].(*lock.FileHold), owner: owner.PID, watch: watch, expiry: &expiry{ttl: o.ttl}, requests: make(chan call)}
	report, err := s.prepare(o)
	if err != nil {
		s.release()
		return a.fail(err)
	}
	_ = os.Chdir("/") // so that the caller's folder can be removed, and its filesystem unmounted
	fmt.Fprintf(a.stdout, "\x00%s\x00", report)
	return s.run(established, abandoned, signals)
}

type ownerEnded int

func (pid ownerEnded) Error() string {
	return fmt.Sprintf("the owner, pid %d, has ended already", int(pid))
}

// awaitHold returns a channel that is closed when the caller has the report, and one that is
// closed when hold has ended without. That hold says stop counts as a signal.
func (a *app) awaitHold(signals chan<- os.Signal) (established, abandoned <-chan struct{}) {
	yes, no := make(chan struct{}), make(chan struct{})
	go func() {
		for orders := bufio.NewScanner(a.stdin); orders.Scan(); {
			switch orders.Text() {
			case kept:
				close(yes)
				return
			case stop:
				signals <- os.Interrupt
			}
		}
		close(no)
	}()
	return yes, no
}

// prepare makes the session reachable, and returns what its caller is told of it.
func (s *session) prepare(o holdOptions) (report string, err error) {
	fence, err := s.held.Fence()
	if err != nil {
		return "", err
	}
	if s.listener, err = listenForSession(s.held.Info().Nonce); err != nil {
		return "", err
	}
	go s.listen()
	r := sessionReport{s.held.Path(), s.held.Info().Nonce, fence, os.Getpid(), s.owner}
	if o.sh {
		return r.shell(s.held.Environ(os.Environ())), nil
	}
	line, err := plainjson.Line(r)
	return string(line), err
}

// sessionReport is what hold prints.
type sessionReport struct {
	Path      string `json:"path"`
	Nonce     string `json:"nonce"`
	Fence     int64  `json:"fence"`
	KeeperPID int    `json:"keeper_pid"`
	OwnerPID  int    `json:"owner_pid"`
}

// shell gives the report as lines for a shell's eval. environ has the locks that are held.
func (r sessionReport) shell(environ []string) string {
	var b strings.Builder
	var names []string
	add := func(name, value string) {
		fmt.Fprintf(&b, "%s='%s'\n", name, strings.ReplaceAll(value, "'", `'\''`))
		names = append(names, name)
	}
	add(lockVar, r.Path)
	add(nonceVar, r.Nonce)
	add(fenceVar, fmt.Sprint(r.Fence))
	add(keeperVar, fmt.Sprint(r.KeeperPID))
	add(ownerVar, fmt.Sprint(r.OwnerPID))
	for _, e := range environ {
		if value, ok := strings.CutPrefix(e, heldVar+"="); ok {
			add(heldVar, value)
		}
	}
	return b.String() + "export " + strings.Join(names, " ") + "\n"
}

// run keeps the lock until something ends the session.
func (s *session) run(established, abandoned <-chan struct{}, signals <-chan os.Signal) int {
	for {
		select {
		case <-established:
			established, abandoned = nil, nil
			s.expiry.begin(time.Now())
			continue
		case <-abandoned:
		case <-s.watch.Exited():
		case sig := <-signals:
			if !endsWait(sig) {
				continue
			}
		case <-s.held.Lost():
		case now := <-s.expiry.due():
			if !s.expiry.passed(now) {
				continue
			}
		case c := <-s.requests:
			switch {
			case c.Nonce != s.held.Info().Nonce || !s.is(string(c.Path)):
				c.answer(reply{exitUsage, "this session is of another lock: " + visible(s.held.Path())})
			case c.Do == doRelease:
				released := s.release()
				c.answer(released)
				return exitOK
			default:
				c.answer(s.change(c.request))
			}
			continue
		}
		s.release()
		return exitOK
	}
}

// is reports whether a path, absolute, leads to our lock file.
func (s *session) is(path string) bool {
	if path == s.held.Path() {
		return true
	}
	theirs, err := os.Lstat(path)
	ours, err2 := os.Lstat(s.held.Path())
	return err == nil && err2 == nil && os.SameFile(theirs, ours)
}

// change renews or transfers the session.
func (s *session) change(r request) reply {
	switch r.Do {
	case doRenew:
		// A session that was lost has nothing to renew, and is told so.
		if err := s.held.SetOwnerPID(s.owner); err != nil {
			return failed(err)
		}
		s.expiry.begin(time.Now())
		return reply{}
	case doTransfer:
		if r.Owner.PIDNamespace != platform.Self().PIDNamespace {
			return reply{exitError, fmt.Sprintf("pid %d is of another pid namespace than the session's keeper; the owner is still pid %d", r.Owner.PID, s.owner)}
		}
		watch, err := platform.WatchExit(r.Owner)
		if errors.Is(err, os.ErrProcessDone) {
			err = fmt.Errorf("pid %d has ended already", r.Owner.PID)
		}
		if err != nil {
			return reply{exitError, fmt.Sprintf("%s; the owner is still pid %d", oneLine(err), s.owner)}
		}
		if err := s.held.SetOwnerPID(r.Owner.PID); err != nil {
			watch.Stop()
			return failed(err)
		}
		s.watch.Stop()
		s.watch, s.owner = watch, r.Owner.PID
		return reply{}
	}
	return reply{exitUsage, "the session's keeper is of another version of holdfast"}
}

// release gives the lock up, and then no longer listens: who finds nobody who listens can rely
// on it that the lock is free.
func (s *session) release() reply {
	err := s.held.Release()
	if s.listener != nil {
		_ = s.listener.Close() // and nobody can reach us any more
	}
	if err != nil {
		return failed(err)
	}
	return reply{}
}

func failed(err error) reply {
	if errors.Is(err, lock.ErrLost) {
		return reply{exitLost, oneLine(err)}
	}
	return reply{exitError, oneLine(err)}
}
