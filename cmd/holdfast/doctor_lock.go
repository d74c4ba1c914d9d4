package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/holdfast-go/holdfast/platform"
)

// checkFiles does once, in a folder that nobody else uses, what the protocol
// does with a lock file.
func (r *report) checkFiles(scratch string) {
	if err := tryFiles(scratch); err != nil {
		r.add("permissions", bad, oneLine(err))
		return
	}
	r.add("permissions", good, "files can be created, written, renamed and removed")
}

// tryFiles goes through the calls in the order in which acquiring, reclaiming and
// releasing make them.
func tryFiles(scratch string) error {
	path := filepath.Join(scratch, "probe")
	f, err := platform.CreateIncomplete(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := platform.CreateIncomplete(path); !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("creating a file that exists must fail, and gave: %v", err)
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	// Some filesystems (vfat, many a FUSE and CIFS mount) ignore modes.
	if !platform.IsIncomplete(info) {
		return errors.New("files can't be marked as incomplete here (mode 0200 does not stick)")
	}
	if _, err := io.WriteString(f, "holdfast doctor\n"); err != nil {
		return err
	}
	if err := errors.Join(f.MarkComplete(), f.Close()); err != nil {
		return err
	}
	if err := platform.Replace(path, path+".moved"); err != nil {
		return err
	}
	if _, _, err := platform.ReadRegular(path+".moved", 1<<10); err != nil {
		return err
	}
	return platform.Remove(path + ".moved")
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
	held, err := platform.TryKernelLock(path, platform.Exclusive)
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
	err = errors.Join(held.Unlock(), wantFree(path))
	if err != nil {
		r.add(checkDescriptors, bad, "not free after it was dropped: "+oneLine(err))
	}

	// That was one process, excluding itself. Others are another matter.
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
	second, err := platform.TryKernelLock(path, platform.Exclusive)
	switch {
	case err == nil:
		return errors.Join(errGranted, second.Unlock())
	case errors.Is(err, platform.ErrBusy):
		return nil
	}
	return err
}

// wantFree returns nil if the lock at path is granted; it is dropped again.
func wantFree(path string) error {
	k, err := platform.TryKernelLock(path, platform.Exclusive)
	if err != nil {
		return err
	}
	return k.Unlock()
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

// tryProcesses lets a second process try while we hold the lock, try again after
// we have let go, and be killed while it holds. It returns what came of the two
// halves.
func tryProcesses(ctx context.Context, path string) (processes, death error) {
	held, err := platform.TryKernelLock(path, platform.Exclusive)
	if err != nil {
		return err, nil
	}
	defer func() {
		if held != nil {
			held.Unlock()
		}
	}()
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
	if err := held.Unlock(); err != nil {
		return err, nil
	}
	held = nil
	if answer := ask(); answer != answerGranted {
		return fmt.Errorf("not granted after it was dropped: the second process said %q", answer), nil
	}
	if err := wantBusy(path); err != nil { // now the other way round
		return err, nil
	}
	// The point of it all: the kernel, and nobody else, lets go for the dead.
	if err := child.Process.Kill(); err != nil {
		return nil, err
	}
	_ = child.Wait() // it was killed; once it is reaped, the kernel has dropped its lock
	if err := wantFree(path); err != nil {
		return nil, fmt.Errorf("not free after its holder was killed: %w", err)
	}
	return nil, nil
}

// startDoctorChild starts the second process. ask has it try for the lock, and
// returns its answer, or in what way there was none.
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
	// One question, one answer: so each process knows what the other has done,
	// and nothing depends on time.
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

// doctorChild is the second process. It tries for the kernel lock at each line
// that it is sent, and keeps what it gets, until its input ends: so it goes away
// with a parent that dies.
func (a *app) doctorChild(args []string) int {
	if len(args) != 1 {
		return exitUsage
	}
	var kept []*platform.KernelLock // the garbage collector must not let go of it
	for orders := bufio.NewScanner(a.stdin); orders.Scan(); {
		k, err := platform.TryKernelLock(args[0], platform.Exclusive)
		answer := answerGranted
		switch {
		case errors.Is(err, platform.ErrBusy):
			answer = answerBusy
		case err != nil:
			answer = oneLine(err)
		default:
			kept = append(kept, k)
		}
		fmt.Fprintln(a.stdout, answer)
	}
	for _, k := range kept {
		_ = k.Unlock()
	}
	return exitOK
}
