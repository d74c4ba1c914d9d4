package main

import (
	"bytes"
	"fmt"
	"net"
	osexec "os/exec"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
)

// startEtcd starts the etcd that is installed, and returns its address.
func startEtcd(t *testing.T) string {
	t.Helper()
	program, err := osexec.LookPath("etcd")
	if err != nil {
		t.Skip("needs etcd-server, to hold locks of it: ", err)
	}
	var addresses []string
	for range 2 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		check(t, err)
		addresses = append(addresses, l.Addr().String())
		check(t, l.Close())
	}
	client, peer := "http://"+addresses[0], "http://"+addresses[1]
	cmd := osexec.Command(program, "--data-dir", t.TempDir(), "--log-level", "error", "--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer)
	var said bytes.Buffer
	cmd.Stderr = &said
	check(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("etcd: %v; it said\n%s", cmd.ProcessState, &said)
		}
	})
	return addresses[0]
}

// TestEtcd: each command that is about locks does with a cluster's what it does with files.
func TestEtcd(t *testing.T) {
	at := startEtcd(t)
	testkit.Eventually(t, "etcd answers", func() bool {
		p := start(t, "status", "--etcd", at, "a/b")
		return p.finish("") == 0
	})
	t.Setenv("ETCDCTL_ENDPOINTS", at)
	under := func(args ...string) *process {
		p := start(t, append(append([]string{"run", "--etcd", ""}, args...), "sh", "-c", "echo ready; cat")...)
		p.said(p.stdout, "ready")
		return p
	}
	holder := under("--label", "the holder", "a/b")
	_, told := want(t, 75, "", "run", "--etcd", "", "-n", "a/b", "true")
	wantText(t, told, "a/b is locked", "the holder", "holdfast break --etcd ... a/b")
	want(t, 75, "", "wait", "--etcd", "", "-w", "0", "a/b")
	out, _ := want(t, 3, "", "status", "--etcd", "", "--json", "a/b")
	s := decode[lock.Status](t, out)
	if s.Info == nil || s.Info.PID != holder.cmd.Process.Pid || s.Info.Nonce == "" || s.Fence == 0 {
		t.Errorf("status is %s", out)
	}
	out, _ = want(t, 0, "", "list", "--etcd", "")
	wantText(t, out, "the holder", " a/b\n", "1 lock: 1 held")

	waits := start(t, "wait", "--etcd", "", "a/b")
	waits.said(waits.stderr, "waiting for a/b")
	holder.finish("")
	if code := waits.finish(""); code != 0 {
		t.Errorf("wait ended with %d\n%s", code, waits.stderr)
	}
	want(t, 0, "", "wait", "--etcd", "", "a/b")

	readers := []*process{under("--label", "one", "-s", "r/r"), under("--label", "two", "-s", "r/r")}
	out, told = want(t, 75, "y\nn\n", "break", "--etcd", "", "r/r") // asked one by one
	wantText(t, told, "End pid ", "holds     1 lock: this one")
	if strings.Count(out, "ended the session") != 1 {
		t.Errorf("it ended\n%s", out)
	}
	readers[0].said(readers[0].stderr, "lost r/r")
	readers[1].finish("")

	holder = under("b/b")
	out, _ = want(t, 3, "", "status", "--etcd", "", "--json", "b/b")
	nonce := decode[lock.Status](t, out).Info.Nonce
	_, told = want(t, 75, "", "break", "--etcd", "", "--force", "1234", "b/b")
	wantText(t, told, "--force names another session")
	want(t, 0, "", "break", "--etcd", "", "--force", nonce, "b/b")
	holder.said(holder.stderr, "lost b/b")
	if code := holder.finish(""); code != 118 {
		t.Errorf("who has lost its lock ended with %d", code)
	}
	one := under("--permits", "1", "p/p")
	_, told = want(t, 75, "", "run", "--etcd", "", "--permits", "1", "-n", "p/p", "true")
	wantText(t, told, "no permit of p/p is free", "permit 1", fmt.Sprint("pid ", one.cmd.Process.Pid))
	want(t, 75, "", "wait", "--etcd", "", "-w", "0", "p/p")
	one.finish("")
	want(t, 64, "", "status", "--etcd", "", "--pg", "", "a/b")
}
