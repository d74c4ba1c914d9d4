package platform_test

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/platform"
)

func init() {
	roles["watched"] = func() {
		fmt.Println("here")
		io.Copy(io.Discard, os.Stdin)
	}
}

// TestWatchExit: who watches is told when the process has exited, though it is a zombie,
// and not before.
func TestWatchExit(t *testing.T) {
	for name, watch := range map[string]func(platform.Process) (*platform.Exit, error){
		"told": platform.WatchExit, "looking": platform.PollExit,
	} {
		t.Run(name, func(t *testing.T) {
			child := testkit.Start(t, "watched")
			child.Expect("here")
			p := must(platform.Identify(child.Cmd.Process.Pid))(t)
			if platform.Probe(p) == platform.Uncertain {
				t.Skip("needs a system that tells of other processes, to watch one")
			}
			exit := must(watch(p))(t)
			defer exit.Stop()
			stopped := must(watch(p))(t)
			stopped.Stop()
			notYet(t, exit.Exited(), "told of a process that lives")
			child.Cmd.Process.Kill()
			promptly(t, "the exit", func() { <-exit.Exited() })
			child.Cmd.Wait()
			wantErr(t, errOf(watch(p)), os.ErrProcessDone, "of one that has gone")
			wantErr(t, errOf(platform.Identify(p.PID)), os.ErrProcessDone, "of one that has gone")
		})
	}
}

// TestWatchExit_Another: a process that has the pid now is not taken for the one meant.
func TestWatchExit_Another(t *testing.T) {
	if runtime.GOOS != "linux" && runtime.GOOS != "windows" {
		t.Skip("needs Linux or Windows, to tell two processes of one pid apart")
	}
	child := testkit.Start(t, "watched")
	child.Expect("here")
	p := must(platform.Identify(child.Cmd.Process.Pid))(t)
	if p.Start == 0 || platform.Probe(p) != platform.Alive {
		t.Fatalf("it is %+v", p)
	}
	earlier, other := p, p
	earlier.Start, earlier.PIDFD = p.Start-1, 0
	other.PIDFD++
	for _, q := range []platform.Process{earlier, other} {
		if q.PIDFD == 1 {
			continue // a kernel without such inodes
		}
		wantErr(t, errOf(platform.WatchExit(q)), os.ErrProcessDone, q)
	}
}

func TestIdentify_NoPID(t *testing.T) {
	for _, pid := range []int{0, -1} {
		if _, err := platform.Identify(pid); err == nil {
			t.Error(pid)
		}
		if _, err := platform.WatchExit(platform.Process{PID: pid}); err == nil {
			t.Error(pid)
		}
	}
}
