package permits_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/permits"
)

func init() { roles["dying"] = dying }

// dying has a permit, starts a process that has it too, and is killed.
func dying(dir string) {
	held, err := permits.New(lock.Dir{Path: dir}, key, 2).Acquire(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	file := held.Hold.(*lock.FileHold)
	child := exec.Command(os.Args[0], os.Args[1:]...)
	child.Env = file.Environ(append(os.Environ(), dyingVar+"=1"))
	child.Stdin, child.Stdout = os.Stdin, os.Stdout
	if err := file.Attach(child); err != nil {
		fmt.Println(err)
	}
	if err := child.Start(); err != nil {
		fmt.Println(err)
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
}

// TestAbove_Gone: so it is for a process that has the permit from one which has gone.
func TestAbove_Gone(t *testing.T) {
	testkit.NeedsKernelLocks(t)
	dir := lock.Dir{Path: t.TempDir()}
	child := testkit.Start(t, "dying", dir.Path)
	child.Expect("refused refused other")
}
