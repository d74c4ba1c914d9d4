package command

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
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

// The keeper of a session listens at a socket, whose name is the nonce, in a folder that is
// this user's alone: so nobody else can ask. It has one request a connection, and answers
// it. Both are JSON.

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

// askSession asks the keeper. It looks wherever this user's keepers may listen. The error is
// errNoSession if there is none, or it ends without a word. A dead one's socket is removed. A
// folder that can't be one of sockets is an error only if none of the others has it.
func askSession(r request) (answer reply, err error) {
	none := errNoSession
	for _, dir := range sessionDirs() {
		if err := checkOwnFolder(dir); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			none = err
			continue
		}
		at := filepath.Join(dir, r.Nonce)
		if len(at) > maxSocketPath { // none was ever made there
			continue
		}
		c, err := net.DialTimeout("unix", at, answerWithin)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil && strings.Contains(err.Error(), "refused"): // as in clearSocket
			_ = os.Remove(at) // no other keeper ever has that name
			continue
		case err != nil:
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
	return answer, none
}

// sessionDirs are the folders in which keepers of this user may listen, the best one first.
func sessionDirs() (dirs []string) {
	if !hasSessions {
		return nil
	}
	// Under su or sudo the variable may still be another user's.
	if base := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(base) && isOwn(base) {
		dirs = append(dirs, filepath.Join(base, "holdfast"))
	}
	temp, err := filepath.Abs(os.TempDir())
	if err != nil {
		return dirs
	}
	return append(dirs, filepath.Join(temp, fmt.Sprintf("holdfast-%d", os.Geteuid())))
}

// sessionDir returns the folder in which a new keeper listens. It makes the folder.
func sessionDir() (string, error) {
	if !hasSessions {
		return "", fmt.Errorf("sessions can't be had on this system: %w", errors.ErrUnsupported)
	}
	dir := sessionDirs()[0]
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("the folder for sockets of sessions: %w", err)
	}
	if len(dir)+1+len("ABCDEFGHIJKLMNOPQRSTUVWXYZ") > maxSocketPath {
		return "", fmt.Errorf("the path of a socket has room for %d bytes, and %s takes too many of them; set XDG_RUNTIME_DIR to a shorter one", maxSocketPath, dir)
	}
	return dir, checkOwnFolder(dir)
}

// maxSocketPath is the least of any system, without the NUL (macOS and the BSDs).
const maxSocketPath = 103

// listenForSession listens at the socket of a session, which closing removes.
func listenForSession(nonce string) (l net.Listener, err error) {
	dir, err := sessionDir()
	if err != nil {
		return nil, err
	}
	ownerOnly(func() { l, err = net.Listen("unix", filepath.Join(dir, nonce)) })
	return l, err
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
