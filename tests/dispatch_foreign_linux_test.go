package tests

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock/dispatch"
)

func init() { roles["claimant"] = claimant }

// claimant claims the id in the folder args[0] again and again, until the file
// args[2] is there, and does under each claim what can't be done by two at once.
// Each claim is written down in the file args[1].
func claimant(args []string) error {
	dir, stop := args[0], args[2]
	log, err := os.OpenFile(args[1], os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	for !exists(stop) {
		claim, err := dispatch.Locks{Dir: dir}.Acquire(context.Background(), dispatchID)
		var conflict *dispatch.ConflictError
		if errors.As(err, &conflict) {
			time.Sleep(rand.N(time.Millisecond)) // let the others run
			continue
		} else if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(log, "acquired go %s %d\n", claim.Nonce, os.Getpid()); err != nil {
			return err
		}
		if err := underLock(filepath.Join(dir, "only")); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(log, "releasing go %s %d\n", claim.Nonce, os.Getpid()); err != nil {
			return err
		}
		if outcome, err := claim.Release(); err != nil || outcome != dispatch.OutcomeReleased {
			return fmt.Errorf("releasing a claim of ours: %q, %w", outcome, err)
		}
	}
	return nil
}

// node returns the interpreter itself, which may stand behind a wrapper.
func node(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("node", "-p", "process.execPath").Output()
	if err != nil {
		t.Skip("needs node, to have a dispatcher in its own language take part: ", err)
	}
	return strings.TrimSpace(string(out))
}

// TestDispatch_WithAnotherLanguage: dispatchers of the published module's rules, in its
// language, which know no kernel lock, and ours contend for one id. Theirs die
// where that leaves a dead claim, or a marker, behind; ours die anywhere. Never do
// two have the id: each puts up a mark that only one can put up, and of all claims
// that are written down none begins before the one before has been given up, or its
// process has died. In the end the id is free without a hand.
func TestDispatch_WithAnotherLanguage(t *testing.T) { // guards: O4
	const each, least, enough = 3, 60, 400
	interpreter := node(t)
	dir, aside := t.TempDir(), t.TempDir()
	log, stop := filepath.Join(aside, "log"), filepath.Join(aside, "stop")
	t.Cleanup(func() { os.WriteFile(stop, nil, 0o600) }) // whatever happens

	var theirs []*exec.Cmd
	deaths := make(chan int, each)
	for range each {
		cmd := exec.Command(interpreter, filepath.Join("testdata", "dispatcher.mjs"), dir, dispatchID, log, stop)
		cmd.Stderr = os.Stderr
		out := must(cmd.StdoutPipe())(t)
		background(t, cmd)
		go func() { deaths <- countLines(out) }()
		theirs = append(theirs, cmd)
	}
	launch := func() *exec.Cmd { return background(t, play(t, "claimant", dir, log, stop)) }
	var ours []*exec.Cmd
	for range each {
		ours = append(ours, launch())
	}
	killed := 0
	count := func(word string) int {
		text, err := os.ReadFile(log)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		return bytes.Count(text, []byte(word))
	}
	begun := time.Now()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%d claims of ours, %d of theirs", count("acquired go"), count("acquired node"))
		}
	})
	had := 0
	eventually(t, "claims enough on both sides", func() bool {
		// On a busy machine a process may take longer to begin than it would live.
		if had+each > count("acquired go") {
			return false
		}
		had = count("acquired go")
		time.Sleep(rand.N(50 * time.Millisecond)) // any instruction
		i := rand.IntN(each)
		ours[i].Process.Kill()
		if err := ours[i].Wait(); !strings.Contains(fmt.Sprint(err), "killed") {
			t.Fatalf("a process of ours ended by itself: %v", err)
		}
		killed++
		ours[i] = launch()
		want := enough
		if time.Since(begun) > 20*time.Second { // on a busy machine
			want = least
		}
		return min(count("acquired go"), count("acquired node")) >= want
	})
	check(t, os.WriteFile(stop, nil, 0o600))
	died := 0
	for range each {
		died += <-deaths
	}
	for _, cmd := range append(theirs, ours...) {
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s ended with %v", filepath.Base(cmd.Path), err)
		}
	}
	t.Logf("%d claims of ours (%d processes killed), %d of theirs (%d killed) in %v",
		count("acquired go"), killed, count("acquired node"), died, time.Since(begun).Round(time.Millisecond))
	checkClaims(t, log)

	// What the dead have left goes when the next one comes, a marker when the next
	// one takes over.
	path := filepath.Join(dir, dispatchID+".lock")
	for _, before := range []string{"", foreignClaim(t, noSuchPID, "f00")} {
		if before != "" {
			writeWhole(t, path, before)
		}
		var claim *dispatch.Claim
		eventually(t, "the id is had", func() (had bool) {
			var err error
			claim, err = dispatch.Locks{Dir: dir}.Acquire(t.Context(), dispatchID)
			return err == nil
		})
		if outcome, err := claim.Release(); outcome != dispatch.OutcomeReleased {
			t.Fatal(outcome, err)
		}
	}
	for _, left := range []string{path, path + ".reclaim"} {
		that(t, !exists(left), "%s is still there", left)
	}
}

// checkClaims reads what the claimants wrote down, each line in one step, in the
// order in which it came about: a claim is written down after it was had, and before
// it is given up. One that was never given up was its process's last act.
func checkClaims(t *testing.T, log string) {
	t.Helper()
	f := must(os.Open(log))(t)
	defer f.Close()
	var open string          // the claim that is held
	dead := map[string]int{} // pid of a claim that was never given up: its line
	for n := 1; ; n++ {
		var what, side, nonce, pid string
		_, err := fmt.Fscanln(f, &what, &side, &nonce, &pid)
		if errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("line %d: %v", n, err)
		}
		claim := side + " " + nonce + " " + pid
		if line, ok := dead[pid]; ok {
			t.Errorf("line %d: pid %s lives, whose claim was taken from it after line %d", n, pid, line)
		}
		switch {
		case what == "acquired" && open != "":
			dead[open[strings.LastIndexByte(open, ' ')+1:]] = n
			open = claim
		case what == "acquired":
			open = claim
		case open != claim:
			t.Errorf("line %d: %s is given up, %q is held", n, claim, open)
		default:
			open = ""
		}
	}
}

func countLines(r io.Reader) (n int) {
	for lines := bufio.NewScanner(r); lines.Scan(); {
		n++
	}
	return n
}

// underLock does the work that must not be done by two at once. The mark is a
// symbolic link, made in one step, that names its maker; one that was
// left by a process that was killed is told from a rival's by that process
// having gone.
func underLock(path string) error {
	mark := path + ".mark"
	for {
		err := os.Symlink(strconv.Itoa(os.Getpid()), mark)
		if err == nil {
			break
		}
		owner, rerr := os.Readlink(mark)
		if !errors.Is(err, fs.ErrExist) || rerr != nil {
			return fmt.Errorf("mark: %w, %w", err, rerr)
		}
		if _, err := os.Stat("/proc/" + owner); err == nil && !isZombie(owner) {
			return fmt.Errorf("not alone: pid %s is at work too", owner)
		}
		if err := os.Remove(mark); err != nil {
			return fmt.Errorf("not alone: the mark of pid %s went away: %w", owner, err)
		}
	}
	counter := path + ".counter"
	text, err := os.ReadFile(counter)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	n, _ := strconv.Atoi(string(text))
	// Renamed into place, so that a kill leaves the old or the new.
	if err := os.WriteFile(counter+".new", []byte(strconv.Itoa(n+1)), 0o600); err != nil {
		return err
	}
	if err := os.Rename(counter+".new", counter); err != nil {
		return err
	}
	return os.Remove(mark)
}
