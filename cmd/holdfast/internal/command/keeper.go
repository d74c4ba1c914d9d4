package command

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/platform"
)

// keeperName is the command by which hold starts the keeper of a session.
const keeperName = "session-keeper"

// keeping is a lock that is kept for an owner.
type keeping struct {
	held  *lock.FileHold
	owner int
	watch *platform.Exit
	asked chan os.Signal // to release the lock
}

// keep is the keeper: it acquires the lock, reports to hold, and keeps the lock until the
// session ends. Its argument is what hold was asked for.
func (a *app) keep(args []string) int {
	// Output that nobody reads any more must not end the session.
	ignorePipes()
	signals := make(chan os.Signal, 64)
	signal.Notify(signals, caughtSignals()...)
	asked := releaseRequests() // before the claim tells others of us
	var o holdOptions
	if len(args) != 1 || json.Unmarshal([]byte(args[0]), &o) != nil {
		return exitUsage
	}
	owner := o.Owner
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
	run := runOptions{timed: o.Timed, timeout: o.Timeout, conflict: exitNotHad, locks: []string{o.Path}, undone: "no session was begun"}
	begun := "a session"
	if program := platform.ProgramOf(owner.PID); program != "" && isName(program) {
		begun = "begun by " + program
	}
	file := lock.File{Path: o.Path, Cmd: begun, OwnerPID: owner.PID}
	began := time.Now()
	run.asks = func(ctx context.Context) ([]hold, error) { return run.acquire(ctx, files{file}, time.Since(began)) }
	held, code, ok := a.take(ctx, run, files{file}, signals)
	close(taken)
	if !ok {
		return code
	}
	s := &keeping{held[0].(*lock.FileHold), owner.PID, watch, asked}
	report, err := s.prepare(o)
	if err != nil {
		_ = s.held.ReleaseUnused()
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

// awaitHold returns two channels: one is closed when the caller has the report, the other when
// hold has ended without. A stop of hold's counts as a signal.
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
func (s *keeping) prepare(o holdOptions) (report string, err error) {
	fence, err := s.held.Fence()
	if err != nil {
		return "", err
	}
	if err := openRequests(s.held.Info().Nonce, s.asked); err != nil {
		return "", err
	}
	r := sessionReport{s.held.Path(), s.held.Info().Nonce, fence, os.Getpid(), s.owner}
	if o.Sh {
		return r.shell(s.held.Environ(os.Environ())), nil
	}
	return jsonLine(r)
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

// run keeps the lock until something ends the session, and records what that was.
func (s *keeping) run(established, abandoned <-chan struct{}, signals <-chan os.Signal) int {
	for {
		var err error
		select {
		case <-established:
			established, abandoned = nil, nil
			continue
		case <-abandoned:
			err = s.held.ReleaseUnused()
		case <-s.asked:
			err = s.held.Release()
		case <-s.watch.Exited():
			err = s.held.ReleaseAsDied(evidence.OwnerEnded)
		case sig := <-signals:
			if !endsWait(sig) {
				continue
			}
			err = s.held.ReleaseAsDied(evidence.ToldToEnd)
		case <-s.held.Lost():
			err = s.held.Release()
		}
		if err != nil { // nobody hears us any more
			return exitError
		}
		return exitOK
	}
}
