package command

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// A keeper listens at a named pipe, whose name ends in the nonce. Its rights let nobody else
// ask, and its owner shows that nobody else answers. It goes with the keeper.

func checkSessions() error { return nil }

// detached has a process started without a console, so that it outlives ours and hears no
// Ctrl-C. It inherits no handle but those of its input and output.
func detached() (*syscall.SysProcAttr, error) {
	return &syscall.SysProcAttr{CreationFlags: windows.DETACHED_PROCESS | windows.CREATE_NEW_PROCESS_GROUP}, nil
}

// ignorePipes: there is no signal for a pipe that nobody reads.
func ignorePipes() {}

func pipeName(nonce string) string { return `\\.\pipe\holdfast-` + nonce }

// dialSession connects to the keeper of a session. The error is errNoSession if there is none.
func dialSession(nonce string) (net.Conn, error) {
	at := pipeName(nonce)
	failed := func(err error) error { return &fs.PathError{Op: "open", Path: at, Err: err} }
	name, err := windows.UTF16PtrFromString(at)
	if err != nil {
		return nil, failed(err)
	}
	user, err := thisUser()
	if err != nil {
		return nil, err
	}
	var h windows.Handle
	for deadline := time.Now().Add(answerWithin); ; time.Sleep(10 * time.Millisecond) {
		// Whoever listens may not act as us.
		h, err = windows.CreateFile(name, windows.GENERIC_READ|windows.GENERIC_WRITE, 0, nil, windows.OPEN_EXISTING,
			windows.FILE_FLAG_OVERLAPPED|windows.SECURITY_SQOS_PRESENT|windows.SECURITY_ANONYMOUS, 0)
		if err != windows.ERROR_PIPE_BUSY || time.Now().After(deadline) { // busy: it is about to listen again
			break
		}
	}
	switch {
	case err == windows.ERROR_FILE_NOT_FOUND:
		return nil, errNoSession
	case err != nil:
		return nil, failed(err)
	}
	rights, err := windows.GetSecurityInfo(h, windows.SE_KERNEL_OBJECT, windows.OWNER_SECURITY_INFORMATION)
	if err == nil {
		var owner *windows.SID
		if owner, _, err = rights.Owner(); err == nil && !owner.Equals(user) {
			err = errors.New("another user listens there")
		}
	}
	if err != nil {
		_ = windows.CloseHandle(h)
		return nil, failed(err)
	}
	return pipeConn{os.NewFile(uintptr(h), at)}, nil
}

func thisUser() (*windows.SID, error) {
	user, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return nil, os.NewSyscallError("GetTokenUser", err)
	}
	return user.User.Sid, nil
}

// pipeListener listens at a named pipe. Each end of it serves one connection.
type pipeListener struct {
	name   string
	rights *windows.SECURITY_DESCRIPTOR
	next   windows.Handle // the end for whoever comes next, or 0; it is Accept's
	over   windows.Handle // an event
}

// listenForSession listens at the pipe of a session. Nobody else may listen there already.
func listenForSession(nonce string) (net.Listener, error) {
	user, err := thisUser()
	if err != nil {
		return nil, err
	}
	l := &pipeListener{name: pipeName(nonce)}
	if l.rights, err = windows.SecurityDescriptorFromString("O:" + user.String() + "D:P(A;;GA;;;" + user.String() + ")"); err != nil {
		return nil, os.NewSyscallError("the rights of a pipe", err)
	}
	if l.over, err = windows.CreateEvent(nil, 1, 0, nil); err != nil {
		return nil, os.NewSyscallError("CreateEvent", err)
	}
	if l.next, err = l.end(windows.FILE_FLAG_FIRST_PIPE_INSTANCE); err != nil {
		_ = windows.CloseHandle(l.over)
		return nil, err
	}
	return l, nil
}

// end makes a further end of the pipe.
func (l *pipeListener) end(flags uint32) (windows.Handle, error) {
	name, err := windows.UTF16PtrFromString(l.name)
	if err != nil {
		return 0, err
	}
	as := &windows.SecurityAttributes{SecurityDescriptor: l.rights}
	as.Length = uint32(unsafe.Sizeof(*as))
	const room = 4 << 10
	h, err := windows.CreateNamedPipe(name, windows.PIPE_ACCESS_DUPLEX|windows.FILE_FLAG_OVERLAPPED|flags,
		windows.PIPE_TYPE_BYTE|windows.PIPE_REJECT_REMOTE_CLIENTS, windows.PIPE_UNLIMITED_INSTANCES, room, room, 0, as)
	if err != nil {
		return 0, &fs.PathError{Op: "listen", Path: l.name, Err: err}
	}
	return h, nil
}

// Accept waits for whoever comes next. There is an end for the one after them before it
// returns, if one can be had: else the session would seem to have ended.
func (l *pipeListener) Accept() (net.Conn, error) {
	if l.next == 0 {
		var err error
		if l.next, err = l.end(0); err != nil {
			return nil, err
		}
	}
	h := l.next
	if err := l.connect(h); err != nil {
		l.next = 0
		_ = windows.CloseHandle(h)
		return nil, err
	}
	l.next, _ = l.end(0)
	return pipeConn{os.NewFile(uintptr(h), l.name)}, nil
}

// connect waits until somebody has connected to an end. The error is net.ErrClosed once the
// listener is closed.
func (l *pipeListener) connect(h windows.Handle) error {
	event, err := windows.CreateEvent(nil, 1, 0, nil)
	if err != nil {
		return os.NewSyscallError("CreateEvent", err)
	}
	defer windows.CloseHandle(event)
	o := &windows.Overlapped{HEvent: event}
	switch err := windows.ConnectNamedPipe(h, o); err {
	case nil, windows.ERROR_PIPE_CONNECTED:
		return nil
	case windows.ERROR_IO_PENDING:
	default:
		return os.NewSyscallError("ConnectNamedPipe", err)
	}
	which, err := windows.WaitForMultipleObjects([]windows.Handle{l.over, event}, false, windows.INFINITE)
	if err != nil || which == windows.WAIT_OBJECT_0 {
		_ = windows.CancelIoEx(h, o)
	}
	var n uint32
	err = windows.GetOverlappedResult(h, o, &n, true)
	if which == windows.WAIT_OBJECT_0 {
		return net.ErrClosed
	}
	return err
}

// Close has Accept return.
func (l *pipeListener) Close() error { return windows.SetEvent(l.over) }

func (l *pipeListener) Addr() net.Addr { return nil }

// pipeConn is one end of a pipe.
type pipeConn struct{ *os.File }

func (pipeConn) LocalAddr() net.Addr  { return nil }
func (pipeConn) RemoteAddr() net.Addr { return nil }
