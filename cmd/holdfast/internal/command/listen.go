package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/lock"
)

// listener is a net.Listener, and what to tell of it.
type listener struct {
	net.Listener `json:"-"`

	URL    string `json:"url"`
	Socket string `json:"socket,omitempty"` // through which to ask for the URL
	// exposure says what can reach it beyond this user or this machine; "" if nothing.
	exposure string
	loopback bool
	end      func() // undoes what listening has left on disk
}

// listen listens at HOST:PORT, or at unix:PATH.
func listen(ctx context.Context, addr string) (*listener, error) {
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		return listenAtSocket(ctx, path)
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	at := l.Addr().(*net.TCPAddr)
	r := &listener{Listener: l, loopback: at.IP.IsLoopback(), end: func() {}}
	host := reachable(at)
	r.URL = "http://" + host + "/"
	switch {
	case at.IP.IsUnspecified():
		r.exposure = "any address of this machine, port " + strconv.Itoa(at.Port) + ","
	case !r.loopback:
		r.exposure = host
	}
	return r, nil
}

// reachable returns HOST:PORT under which a listener can be reached. One that listens on
// all addresses says 0.0.0.0 or [::], which is no use to another machine. Then it is the
// first of this machine's own addresses at which it answers.
func reachable(at *net.TCPAddr) string {
	if !at.IP.IsUnspecified() {
		return at.String()
	}
	for _, ip := range append(ownAddresses(), net.IPv4(127, 0, 0, 1), net.IPv6loopback) {
		host := net.JoinHostPort(ip.String(), strconv.Itoa(at.Port))
		if c, err := net.DialTimeout("tcp", host, time.Second); err == nil {
			_ = c.Close()
			return host
		}
	}
	return at.String()
}

// ownAddresses returns the addresses of the interfaces that others can be expected to
// reach, IPv4 first.
func ownAddresses() (own []net.IP) {
	all, _ := net.InterfaceAddrs() // without them there is still the loopback
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			own = append(own, n.IP)
		}
	}
	slices.SortStableFunc(own, func(a, b net.IP) int { return len(b.To4()) - len(a.To4()) })
	return own
}

// listenAtSocket listens at a socket for this user alone. A lock beside the socket says
// whether its server lives, and keeps a second one from looking at the same time. A server
// of another program is known by its answering.
func listenAtSocket(ctx context.Context, path string) (_ *listener, err error) {
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	held, err := lock.File{Path: path + ".lock", Cmd: "holdfast serve", Tidy: true}.TryAcquire(ctx)
	var locked *lock.LockedError
	if errors.As(err, &locked) {
		return nil, fmt.Errorf("a server listens at %s already: %w", path, err)
	} else if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = held.Release()
		}
	}()
	if err := clearSocket(path); err != nil {
		return nil, err
	}
	var l net.Listener
	ownerOnly(func() { l, err = net.Listen("unix", path) })
	if errors.Is(err, syscall.EINVAL) {
		return nil, fmt.Errorf("%w: the path of a socket has room for some 100 bytes, and this one has %d", err, len(path))
	} else if err != nil {
		return nil, err
	}
	// Otherwise closing removes whatever lies there by then. Not every system has this.
	if u, ok := l.(interface{ SetUnlinkOnClose(bool) }); ok {
		u.SetUnlinkOnClose(false)
	}
	made, err := os.Lstat(path)
	if err != nil {
		_ = l.Close()
		return nil, err
	}
	end := func() {
		if now, err := os.Lstat(path); err == nil && os.SameFile(made, now) {
			_ = os.Remove(path)
		}
		_ = held.Release()
	}
	return &listener{Listener: l, URL: "http://localhost/", Socket: path, end: end}, nil
}

// clearSocket removes the socket of a dead server, and nothing else.
func clearSocket(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s is there, and is no socket", path)
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		_ = c.Close()
		return fmt.Errorf("another program listens at %s", path)
	}
	if !strings.Contains(err.Error(), "refused") { // in whatever words the system has for it
		return err
	}
	return os.Remove(path)
}
