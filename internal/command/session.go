package command

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/platform"
)

// What "holdfast hold -sh" sets beside what commands under a lock find.
const (
	nonceVar  = "HOLDFAST_NONCE"
	keeperVar = "HOLDFAST_KEEPER" // pid
	ownerVar  = "HOLDFAST_OWNER"  // pid
	heldVar   = "HOLDFAST_HELD"   // FileHold.Environ
)

// The keeper of a session listens where the nonce says, and only its user can ask
// (listenForSession, dialSession). It has one request a connection, and answers it. Both are
// JSON.

// request is what a keeper is asked for.
type request struct {
	Do    string
	Nonce string
	Path  []byte           // of the lock file, absolute
	Owner platform.Process // for doTransfer
}

// What a keeper can do.
const (
	doRelease  = "release"
	doRenew    = "renew"
	doTransfer = "transfer"
)

// reply is how that ended: the exit code, and, unless it is 0, what to say.
type reply struct {
	Code int
	Text string
}

// answerWithin bounds how long the other side may take.
const answerWithin = 30 * time.Second

func (a *app) release(args []string) int { return a.ask(newFlags(doRelease), args, request{}) }

func (a *app) renew(args []string) int { return a.ask(newFlags(doRenew), args, request{}) }

func (a *app) transfer(args []string) int {
	flags := newFlags(doTransfer)
	to := flags.Int("to", 0, "")
	if code, ok := a.parse(flags, args); !ok {
		return code
	}
	if *to <= 0 || *to > math.MaxInt32 {
		return a.misuse(doTransfer, "-to wants the pid of the new owner")
	}
	owner, err := platform.Identify(*to)
	if err != nil {
		a.say(oneLine(err) + "; the owner is still the same")
		return exitError
	}
	return a.ask(flags, args, request{Owner: owner})
}

// ask has the keeper of a session do what the flags are named after.
func (a *app) ask(flags *flag.FlagSet, args []string, r request) int {
	if code, ok := a.parse(flags, args); !ok {
		return code
	}
	if flags.NArg() != 2 {
		return a.misuse(flags.Name(), fmt.Sprintf("LOCK and NONCE are wanted, not %d arguments", flags.NArg()))
	}
	path, nonce := flags.Arg(0), flags.Arg(1)
	if path == "" || !isNonce(nonce) {
		return a.misuse(flags.Name(), "NONCE is what hold has printed: letters and digits")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return a.fail(err)
	}
	r.Do, r.Nonce, r.Path = flags.Name(), nonce, []byte(abs)
	answer, err := askSession(r)
	switch {
	case errors.Is(err, errNoSession):
		return a.noSession(path, nonce)
	case err != nil:
		return a.fail(err)
	case answer.Code != exitOK:
		a.say(visible(answer.Text))
	}
	return answer.Code
}

// isNonce reports whether a text can be one, and so the name of a file.
func isNonce(s string) bool {
	return s != "" && len(s) <= 64 && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789") == ""
}

// noSession says that nobody listens for a session: it has ended, as a rule.
func (a *app) noSession(path, nonce string) int {
	status, err := lock.File{Path: path}.Inspect(context.Background())
	switch {
	case err != nil:
		a.say("this session has ended (there is no keeper of that nonce, and of the lock: " + oneLine(err) + ")")
		return exitEnded
	case status.State == lock.StateHeld && status.Info != nil && status.Info.Nonce == nonce && status.Info.OwnerPID != 0:
		a.say(fmt.Sprintf("this session can't be reached: its keeper, pid %d, has its socket elsewhere", status.Info.PID))
		a.more("it was begun with another XDG_RUNTIME_DIR or TMPDIR, or by another user; ending that process ends the session")
		return exitError
	}
	a.say(fmt.Sprintf("this session has ended (%s: %s)", visible(status.Path), status.State))
	if status.State != lock.StateFree {
		fileWords.describe(a.stderr, status)
	}
	return exitEnded
}

var errNoSession = errors.New("no session has that nonce")

// askSession asks the keeper. The error is errNoSession if there is none, or it ends without
// a word.
func askSession(r request) (answer reply, err error) {
	c, err := dialSession(r.Nonce)
	if err != nil {
		return answer, err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(answerWithin))
	if err := json.NewEncoder(c).Encode(r); err != nil {
		return answer, errNoSession
	}
	err = json.NewDecoder(c).Decode(&answer)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return answer, fmt.Errorf("the keeper of the session does not answer; it may be stopped: %w", err)
	} else if err != nil {
		return answer, errNoSession
	}
	return answer, nil
}

// listen has requests answered until the listener is closed. Who does not finish a request
// keeps nobody else waiting.
func (s *session) listen() {
	for {
		c, err := s.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		} else if err != nil {
			time.Sleep(100 * time.Millisecond) // no descriptor is left, perhaps
			continue
		}
		go func() {
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(answerWithin))
			var r request
			if json.NewDecoder(c).Decode(&r) != nil {
				return
			}
			answered := make(chan struct{})
			s.requests <- call{r, func(answer reply) {
				defer close(answered)
				_ = json.NewEncoder(c).Encode(answer)
			}}
			<-answered
		}()
	}
}
