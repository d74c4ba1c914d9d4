package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/holdfast-go/holdfast/platform"
)

// checkFiles does once, in a folder that nobody else uses, what the protocol
// does with a lock file.
func (r *report) checkFiles(scratch string) {
	if err := tryFiles(scratch, r.Filesystem.Trusted); err != nil {
		r.add("permissions", bad, oneLine(err))
		return
	}
	r.add("permissions", good, "files can be created, marked, written, read and removed")
}

// tryFiles makes the calls of acquiring and releasing, in their order.
func tryFiles(scratch string, trusted bool) error {
	path := filepath.Join(scratch, "probe")
	f, err := platform.Create(path, trusted)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := platform.Create(path, true); !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("creating a file that exists must fail, and gave: %v", err)
	}
	const text = "holdfast doctor\n"
	if err := f.WriteAt([]byte(text), 0); err != nil {
		return err
	}
	// Lock files are marked only where the filesystem is trusted: many others (vfat, many
	// a FUSE and CIFS mount) ignore modes.
	if info, err := f.Stat(); err != nil {
		return err
	} else if trusted && platform.KeepsMarks && !info.Marked() {
		return errors.New("files can't be marked here (the sticky bit does not stick)")
	}
	if data, err := platform.ReadRegular(path, 1<<10); err != nil {
		return err
	} else if string(data) != text {
		return fmt.Errorf("what was written is read as %q", data)
	}
	if at, err := f.IsAt(path); err != nil {
		return err
	} else if !at {
		return errors.New("a file that is open is not the one at its path (identities are made up here)")
	}
	return platform.Remove(path)
}

// Names of the checks that decide on the mode.
const (
	checkDescriptors = "kernel lock, two descriptors"
	checkProcesses   = "kernel lock, two processes"
	checkDeath       = "kernel lock, holder killed"
)

// errGranted is the one answer that makes a kernel lock worse than none.
var errGranted = errors.New("granted twice at the same time")

// checkKernelLock tries the kernel lock on a file of our own.
func (r *report) checkKernelLock(ctx context.Context, path string) {
	held, err := tryLock(path)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		r.add(checkDescriptors, weak, "there is none here: "+oneLine(err))
		return
	case err != nil:
		r.add(checkDescriptors, bad, oneLine(err))
		return
	}
	err = wantBusy(path)
	r.result(checkDescriptors, err, "the second is refused while the first holds")
	err = errors.Join(held.Close(), wantFree(path))
	if err != nil {
		r.add(checkDescriptors, bad, "not free after it was dropped: "+oneLine(err))
	}

	// That was one process, excluding itself. Two processes are another matter.
	processes, death := tryProcesses(ctx, path)
	r.result(checkProcesses, processes, "refused while another process holds, granted after")
	if processes == nil {
		r.result(checkDeath, death, "granted once the process that held was killed")
	}
}

// result adds a check by the error that it ended with.
func (r *report) result(name string, err error, detail string) {
	switch {
	case err == nil:
		r.add(name, good, detail)
	case errors.Is(err, errNotTried):
		r.add(name, weak, oneLine(err))
	default:
		r.add(name, bad, oneLine(err))
	}
}

// wantBusy returns nil if the lock at path is refused, as it must be.
func wantBusy(path string) error {
	second, err := tryLock(path)
	switch {
	case err == nil:
		return errors.Join(errGranted, second.Close())
	case errors.Is(err, platform.ErrBusy):
		return nil
	}
	return err
}

// wantFree returns nil if the lock at path is granted; it is dropped again.
func wantFree(path string) error {
	f, err := tryLock(path)
	if err != nil {
		return err
	}
	return f.Close()
}

// tryLock opens a file, or makes it, and takes its kernel lock.
func tryLock(path string) (*platform.File, error) {
	f, err := platform.Open(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	if err := f.TryLock(platform.Exclusive); err != nil {
		_ = f.Close() // it has no lock
		return nil, err
	}
	return f, nil
}

// errNotTried says that a check could not be made.
var errNotTried = errors.New("could not be tried")

// doctorChildName is the command by which doctor starts itself as a second
// process. It is not for people.
const doctorChildName = "doctor-child"

// Answers of the child.
const (
	answerBusy    = "busy"
	answerGranted = "granted"
)

// tryProcesses lets a second process try while we hold the lock, try again after our release,
// and be killed while it holds. It returns the errors of the two halves.
func tryProcesses(ctx context.Context, path string) (processes, death error) {
	held, err := tryLock(path)
	if err != nil {
		return err, nil
	}
	defer held.Close()
	child, ask, err := startDoctorChild(ctx, path)
	if err != nil {
		return fmt.Errorf("%w: %w", errNotTried, err), nil
	}
	defer func() { // after the normal end both fail, and that is fine
		_ = child.Process.Kill()
		_ = child.Wait()
	}()
	switch answer := ask(); answer {
	case answerBusy:
	case answerGranted:
		return errGranted, nil
	default:
		return fmt.Errorf("%w: the second process said %q", errNotTried, answer), nil
	}
	if err := held.Close(); err != nil {
		return err, nil
	}
	if answer := ask(); answer != answerGranted {
		return fmt.Errorf("not granted after it was dropped: the second process said %q", answer), nil
	}
	if err := wantBusy(path); err != nil { // now the other way round
		return err, nil
	}
	// The point of it all: the kernel alone releases the locks of the dead.
	if err := child.Process.Kill(); err != nil {
		return nil, err
	}
	_ = child.Wait() // it was killed; once it is reaped, the kernel has dropped its lock
	if err := wantFree(path); err != nil {
		return nil, fmt.Errorf("not free after its holder was killed: %w", err)
	}
	return nil, nil
}

// startDoctorChild starts the second process. ask has it try for the lock, and returns its
// answer, or why there was none.
func startDoctorChild(ctx context.Context, path string) (cmd *exec.Cmd, ask func() string, err error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	cmd = exec.CommandContext(ctx, exe, doctorChildName, path)
	orders, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	answers, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	// One question, one answer: each process knows what the other has done, and nothing
	// depends on time.
	lines := bufio.NewScanner(answers)
	ask = func() string {
		if _, err := fmt.Fprintln(orders, "try"); err != nil {
			return err.Error()
		}
		if !lines.Scan() {
			return "nothing"
		}
		return lines.Text()
	}
	return cmd, ask, nil
}

// doctorChild is the second process. At each line of input it tries for the kernel lock, and
// keeps what it gets. It ends with its input, and so with a parent that dies.
func (a *app) doctorChild(args []string) int {
	if len(args) != 1 {
		return exitUsage
	}
	var kept []*platform.File // until the end
	for orders := bufio.NewScanner(a.stdin); orders.Scan(); {
		f, err := tryLock(args[0])
		answer := answerGranted
		switch {
		case errors.Is(err, platform.ErrBusy):
			answer = answerBusy
		case err != nil:
			answer = oneLine(err)
		default:
			kept = append(kept, f)
		}
		fmt.Fprintln(a.stdout, answer)
	}
	for _, f := range kept {
		_ = f.Close()
	}
	return exitOK
}
