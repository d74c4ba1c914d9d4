package tests

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/etcd"
	"github.com/holdfast-go/holdfast/lock/pg"
	"github.com/holdfast-go/holdfast/lock/pg/pgtest"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// An engine is what chaos can be raised on.
type chaosEngine struct {
	// open opens all groups of locks at an address.
	open func(address string) ([]lock.Locker, error)
	// files says that the address is a folder, and that what needs files is done there, too.
	files bool
}

var engines = map[string]chaosEngine{
	"files": {files: true, open: func(dir string) ([]lock.Locker, error) {
		return []lock.Locker{plainLocks{filepath.Join(dir, "plain")}, lock.Dir{Path: filepath.Join(dir, "keys")}}, nil
	}},
	"plain files": {files: true, open: func(dir string) ([]lock.Locker, error) {
		return []lock.Locker{plainLocks{filepath.Join(dir, "plain")}}, nil
	}},
	"PostgreSQL": {open: func(conn string) ([]lock.Locker, error) {
		l, err := pg.Open(context.Background(), pg.Options{Conn: conn})
		if err != nil {
			return nil, err
		}
		return []lock.Locker{l}, nil
	}},
	"etcd": {open: func(endpoint string) ([]lock.Locker, error) {
		client, err := etcdClient(endpoint)
		if err != nil {
			return nil, err
		}
		l, err := etcd.Open(context.Background(), etcd.Options{Client: client, Lease: etcdLease})
		if err != nil {
			return nil, errors.Join(err, client.Close())
		}
		return []lock.Locker{closingClient{l, client}}, nil
	}},
}

// etcdLease is how long the locks of the dead stay theirs. A process that is not run for as long
// loses its own.
const etcdLease = 5 * time.Second

// closingClient closes its client with it.
type closingClient struct {
	*etcd.Locker
	client *clientv3.Client
}

func (l closingClient) Close() {
	l.Locker.Close()
	_ = l.client.Close()
}

func etcdClient(endpoint string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
}

// etcdServer starts the server that is installed, and gives its address.
func etcdServer(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("etcd")
	if err != nil {
		t.Skip("needs etcd-server: ", err)
	}
	var free [2]string
	for i := range free {
		l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
		free[i] = "http://" + l.Addr().String()
		check(t, l.Close())
	}
	cmd := exec.Command(program, "--data-dir", t.TempDir(), "--listen-client-urls", free[0], "--advertise-client-urls", free[0],
		"--listen-peer-urls", free[1], "--initial-advertise-peer-urls", free[1], "--initial-cluster", "default="+free[1],
		"--logger", "zap", "--log-level", "fatal")
	cmd.Env = append(os.Environ(), "ETCD_UNSUPPORTED_ARCH="+runtime.GOARCH)
	background(t, cmd)
	client := must(etcdClient(free[0]))(t)
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	check(t, errOf(client.Get(ctx, "it answers", clientv3.WithSerializable())))
	return free[0]
}

// postgreSQL starts a server, and gives its address.
func postgreSQL(t *testing.T) string {
	t.Helper()
	server, err := pgtest.Start("max_connections=400")
	if errors.Is(err, pgtest.ErrMissing) {
		t.Skip("needs PostgreSQL's server: ", err)
	}
	check(t, err)
	t.Cleanup(func() {
		noErr(t, server.Stop())
	})
	return server.Conn()
}

// filesystems are those that chaos is raised on, with what makes each.
var filesystems = []struct {
	name  string
	mount func(t *testing.T) string
}{
	{"ext4", func(t *testing.T) string { return onImage(t, "ext4", "-q") }},
	{"tmpfs", func(t *testing.T) string { return mounted(t, "tmpfs", "") }},
	{"overlay", func(t *testing.T) string {
		base := mounted(t, "tmpfs", "") // what is above can't be an overlay itself
		var options string
		for _, name := range []string{"lower", "upper", "work"} {
			check(t, os.Mkdir(filepath.Join(base, name), 0o700))
			options += name + "dir=" + filepath.Join(base, name) + ","
		}
		return mounted(t, "overlay", options[:len(options)-1])
	}},
	{"xfs", func(t *testing.T) string { return onImage(t, "xfs", "-q") }},
	{"btrfs", func(t *testing.T) string { return onImage(t, "btrfs", "-q") }},
}

// mounted gives a folder on a filesystem of its own, until the test ends.
func mounted(t *testing.T, kind, options string) string {
	t.Helper()
	testkit.NeedsRoot(t, "mount a filesystem")
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, kind, 0, options); err != nil {
		t.Skipf("needs the right to mount %s: %v", kind, err)
	}
	unmountInTheEnd(t, dir)
	return dir
}

// onImage is mounted for a filesystem that needs a device.
func onImage(t *testing.T, kind string, flags ...string) string {
	t.Helper()
	testkit.NeedsRoot(t, "mount a filesystem")
	image, dir := filepath.Join(t.TempDir(), "image"), t.TempDir()
	for _, tool := range []string{"mkfs." + kind, "mount"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs %s, to make a filesystem: %v", tool, err)
		}
	}
	check(t, os.WriteFile(image, nil, 0o600))
	check(t, os.Truncate(image, 512<<20)) // sparse
	if out, err := exec.Command("mkfs."+kind, append(flags, image)...).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.%s: %v: %s", kind, err, out)
	}
	if out, err := exec.Command("mount", "-t", kind, "-o", "loop", image, dir).CombinedOutput(); err != nil {
		t.Skipf("needs the right to mount %s from an image: %v: %s", kind, err, out)
	}
	unmountInTheEnd(t, dir)
	return dir
}

func unmountInTheEnd(t *testing.T, dir string) {
	t.Cleanup(func() {
		noErr(t, syscall.Unmount(dir, syscall.MNT_DETACH), "unmounting")
	})
}
