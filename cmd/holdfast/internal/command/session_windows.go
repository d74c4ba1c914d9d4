package command

import (
	"io/fs"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// A keeper is asked to release the lock by an event, whose name ends in the nonce, as there are
// no signals. Its rights let nobody else ask. It goes with the keeper.

func releaseRequests() chan os.Signal { return make(chan os.Signal, 1) }

func eventName(nonce string) string { return `Global\holdfast-` + nonce }

func openRequests(nonce string, asked chan<- os.Signal) error {
	failed := func(err error) error { return &fs.PathError{Op: "make", Path: eventName(nonce), Err: err} }
	name, err := windows.UTF16PtrFromString(eventName(nonce))
	if err != nil {
		return failed(err)
	}
	user, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return os.NewSyscallError("GetTokenUser", err)
	}
	sid := user.User.Sid.String()
	rights, err := windows.SecurityDescriptorFromString("O:" + sid + "D:P(A;;GA;;;" + sid + ")")
	if err != nil {
		return os.NewSyscallError("the rights of an event", err)
	}
	as := &windows.SecurityAttributes{SecurityDescriptor: rights}
	as.Length = uint32(unsafe.Sizeof(*as))
	event, err := windows.CreateEvent(as, 1, 0, name)
	if err != nil { // another's of that name is an error, too
		return failed(err)
	}
	go func() {
		if _, err := windows.WaitForSingleObject(event, windows.INFINITE); err == nil {
			asked <- os.Interrupt
		}
	}()
	return nil
}

func requestRelease(_ *os.Process, nonce string) error {
	failed := func(err error) error { return &fs.PathError{Op: "open", Path: eventName(nonce), Err: err} }
	name, err := windows.UTF16PtrFromString(eventName(nonce))
	if err != nil {
		return failed(err)
	}
	event, err := windows.OpenEvent(windows.EVENT_MODIFY_STATE, false, name)
	switch {
	case err == windows.ERROR_FILE_NOT_FOUND:
		return os.ErrProcessDone
	case err != nil:
		return failed(err)
	}
	defer windows.CloseHandle(event)
	return os.NewSyscallError("SetEvent", windows.SetEvent(event))
}

// detached has a process started without a console, so that it outlives ours and hears no
// Ctrl-C. It inherits no handle but those of its input and output.
func detached() (*syscall.SysProcAttr, error) {
	return &syscall.SysProcAttr{CreationFlags: windows.DETACHED_PROCESS | windows.CREATE_NEW_PROCESS_GROUP}, nil
}

// ignorePipes: there is no signal for a pipe that nobody reads.
func ignorePipes() {}

// outputIsClosed: writing to it fails then.
func outputIsClosed() bool { return false }
