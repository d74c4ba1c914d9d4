package command

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A tree is a command and all its descendants, of which --kill-tree leaves none. A nil tree,
// without --kill-tree, does nothing. One goroutine uses it.
//
// A process that loses its parent becomes our child (see newTree). So none gets away by
// going into the background. We are told when each one ends, at the latest when all above
// it have ended.
//
// A control group (cgroup.kill, Linux 5.14) would end them all by one write, also those that
// we may not signal. But an ordinary user may seldom make one, so this would be needed all the
// same. And it would find no further process: none leaves the tree, as an orphan is adopted
// (prctl(2), PR_SET_CHILD_SUBREAPER) by a process above it, in the tree, or by us.
type tree struct {
	command  int
	grace    time.Duration
	died     chan os.Signal   // a child of ours, the command or an orphan, has ended
	deadline <-chan time.Time // when what was asked to end is killed; nil before
	killing  bool
	asked    map[int]bool // the pids that have had SIGTERM, or SIGKILL once killing
}

// killPatience is how long SIGKILL may take.
const killPatience = 10 * time.Second

// lookAgain is when to look again though no process is known to have ended: a look may miss a
// process whose parent ends meanwhile.
const lookAgain = time.Second

// ask asks all descendants to end, and has them killed after the grace. The command is left
// out, as it has had its signal.
func (t *tree) ask() {
	if t == nil || t.deadline != nil {
		return
	}
	t.deadline = time.After(t.grace)
	t.asked = map[int]bool{t.command: true}
	t.look()
}

// due is ready when it is time to kill.
func (t *tree) due() <-chan time.Time {
	if t == nil || t.killing {
		return nil
	}
	return t.deadline
}

// kill ends all that there are.
func (t *tree) kill() {
	t.killing, t.asked, t.deadline = true, map[int]bool{}, time.After(killPatience)
	t.look()
}

// look buries the orphans that have ended, and returns the pids of the descendants that
// live. Once all are to end, it tells those that have not been told.
func (t *tree) look() (alive []int) {
	for _, p := range descendants() {
		switch {
		case p.ended && p.child && p.pid != t.command: // another goroutine waits for the command
			bury(p.pid)
		case !p.ended:
			alive = append(alive, p.pid)
			if t.deadline != nil && !t.asked[p.pid] {
				t.asked[p.pid] = endDescendant(p.pid, t.killing)
			}
		}
	}
	slices.Sort(alive)
	return alive
}

// end ends all descendants, once the command has ended. A signal that would end us has them
// killed at once. If some are left, all is false, and end returns those that it sees. Some may
// be left as we may not signal them, SIGKILL does not end them soon, or they go on too fast.
//
// A process that starts another and ends, again and again, may be seen by no look. But the
// kernel makes each orphan our child, and knows whether there is any.
func (t *tree) end(signals <-chan os.Signal) (left []int, all bool) {
	if t == nil {
		return nil, true
	}
	t.ask()
	for alive := t.look(); haveChildren(); alive = t.look() {
		select {
		case <-t.died:
		case <-time.After(lookAgain):
		case s := <-signals:
			if endsWait(s) && !t.killing {
				t.kill()
			}
		case <-t.deadline:
			if t.killing {
				return alive, false
			}
			t.kill()
		}
	}
	return nil, true
}

// tellLeft names the descendants that could not be ended.
func (a *app) tellLeft(left []int, all bool) {
	if all {
		return
	}
	var pids []string
	for _, pid := range left {
		pids = append(pids, strconv.Itoa(pid))
	}
	text := "--kill-tree could not end everything"
	if len(pids) > 0 {
		text += "; still there: pid " + strings.Join(pids, ", ")
	}
	a.say(text)
}
