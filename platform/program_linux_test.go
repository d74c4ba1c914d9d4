package platform_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/platform"
)

func init() {
	roles["odd name"] = func() {
		// It is the first thread's name, and looks like the fields behind it.
		if err := os.WriteFile("/proc/self/comm", []byte("a) Z 1 (b"), 0); err != nil {
			panic(err)
		}
		sayAndWait(platform.Self())
	}
}

// TestProbe_OddName: a process may have brackets and spaces in its name.
func TestProbe_OddName(t *testing.T) {
	var p platform.Process
	child, _ := playRole(t, "odd name", &p)
	if p.Start == 0 || p.PID != child.Process.Pid {
		t.Fatalf("it is %+v", p)
	}
	for how, id := range identities(p) {
		if how != "by pid alone" {
			wantLiveness(t, how, id, platform.Alive)
		}
	}
	self, err := platform.Identify(p.PID)
	that(t, err == nil && self.Start == p.Start, "%+v, %v; want %+v", self, err, p)
	if _, known := platform.Began(p.PID); !known {
		t.Error("when it began is not known")
	}
}

// TestProgramOf: its name, and none of its arguments, though it may show them as its name.
func TestProgramOf(t *testing.T) {
	equal(t, platform.ProgramOf(os.Getpid()), filepath.Base(os.Args[0]), "this")
	cmd := testkit.Command(t, "wait")
	cmd.Args[0] = "/opt/bin/agent --token s3cret /x/y"
	child := testkit.StartCommand(t, cmd)
	child.Answer()
	equal(t, platform.ProgramOf(cmd.Process.Pid), "agent", "the child")
	check(t, child.End())
	equal(t, platform.ProgramOf(cmd.Process.Pid), "", "gone, and")
}

// TestAwaitExit_FirstThreadGone: a process is not on its way out as long as one of its threads
// goes on.
func TestAwaitExit_FirstThreadGone(t *testing.T) {
	var p platform.Process
	playRole(t, "leaderless", &p)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	equal(t, platform.AwaitExit(ctx, p, 0), platform.Alive, "liveness")
}

// TestOnceComplete: an answer that is not complete is given, and asked for again.
func TestOnceComplete(t *testing.T) {
	asked := 0
	answer := platform.OnceComplete(func() (int, bool) { asked++; return asked, asked > 2 })
	for i, want := range []int{1, 2, 3, 3, 3} {
		equal(t, answer(), want, "answer", i+1)
	}
}

// TestWatchExit_Stopped: who has ended a watch is not told of an exit.
func TestWatchExit_Stopped(t *testing.T) {
	for name, watch := range map[string]func(platform.Process) (*platform.Exit, error){
		"told": platform.WatchExit, "looking": platform.PollExit,
	} {
		before := runtime.NumGoroutine()
		exit := must(watch(platform.Self()))(t)
		exit.Stop()
		testkit.Eventually(t, "the watch is over", func() bool { return runtime.NumGoroutine() <= before })
		notYet(t, exit.Exited(), "%s: of a process that lives", name)
	}
}
