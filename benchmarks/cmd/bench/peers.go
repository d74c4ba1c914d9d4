//go:build linux

package main

import (
	"errors"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"
)

// locker takes a lock, waiting for it, and returns how to release it.
type locker func(path string) (release func() error, err error)

// errBusy is returned by a try for a lock that somebody else has.
var errBusy = errors.New("somebody else has it")

// offers is what a peer gives beside exclusion, so that nobody compares unlike with
// like. "-" means that it does not.
type offers struct {
	Identity  string // can one find out who holds the lock?
	Crash     string // is the lock of a holder that was killed free again?
	Ownership string // does the holder learn that the lock was taken from it?
	Fence     string // a number that grows with each holder
	Cancel    string // can a wait be called off?
}

// peer is a way to lock a file, as it is found in the world.
type peer struct {
	Name    string
	Waits   string // how it waits, as it is measured here
	Offers  offers
	module  string              // of a Go module, whose version is in the binary
	version func() string       // of anything else
	script  string              // the agent that speaks for it, if it isn't this program
	build   string              // another build of this program, whose holdfast it is
	find    func() (why string) // "" if it can be had here

	lock   locker
	shared locker // nil if there are no readers
	// files are what stands for the lock, the first of them what others see.
	files func(path string) []string
	// poll is how long it sleeps between tries; patience, how long it may take it to
	// notice that a lock is free.
	poll, patience time.Duration
	shares         bool // readers, of a peer with a script
}

func (p *peer) readers() bool { return p.shared != nil || p.shares }

func (p *peer) lockFiles(path string) []string {
	if p.files == nil {
		return []string{path}
	}
	return p.files(path)
}

func (p *peer) needs() time.Duration { return max(p.patience, 300*time.Millisecond) }

// missing says why a peer can't be had here; "" if it can.
func (p *peer) missing() string {
	if p.find == nil {
		return ""
	}
	return p.find()
}

func (p *peer) versionHere() string {
	if p.version != nil {
		return p.version()
	}
	return moduleVersion(p.module)
}

// moduleVersion is what this program was built with.
func moduleVersion(path string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok || path == "" {
		return ""
	}
	for _, dep := range info.Deps {
		if dep.Path == path {
			if dep.Version == "(devel)" { // go.work has it in a folder
				return "this tree"
			}
			return dep.Version
		}
	}
	return "not in the binary"
}

// Names of the rows that are no peers, but what peers are measured against.
const (
	floorName    = "floor: open, flock, close"
	protocolName = "floor: holdfast's own calls"
	oursName     = "holdfast"
)

func isFloor(name string) bool { return strings.HasPrefix(name, "floor") }

func peerNamed(name string) *peer {
	for _, p := range peers {
		if p.Name == name {
			return p
		}
	}
	return nil
}

const (
	inKernel = "in the kernel"
	tries    = "no wait of its own: a try every 10 ms"
	ownPoll  = 10 * time.Millisecond
	kernelIs = "kernel"
)

// peers are all of them. Waits and Offers come of their documentation and code at
// the version measured.
var peers = []*peer{
	{Name: floorName, Waits: inKernel, Offers: offers{Crash: kernelIs}, lock: bareFlock, shared: bareShared},
	{Name: protocolName, Waits: inKernel, Offers: offers{Crash: kernelIs}, lock: bareProtocol,
		files: func(path string) []string { return []string{path, path + ".flock"} }},
	{Name: oursName, module: "github.com/holdfast-go/holdfast", Waits: inKernel + ", in a queue",
		Offers: offers{"pid, host, command, since", kernelIs, "yes", "yes", "context"},
		lock:   holdfast, shared: holdfastShared,
		files: func(path string) []string { return []string{path, path + ".flock"} }},
	{Name: "gofrs/flock", module: "github.com/gofrs/flock", Waits: inKernel,
		Offers: offers{Crash: kernelIs}, lock: gofrs, shared: gofrsShared},
	{Name: "gofrs/flock, cancellable", module: "github.com/gofrs/flock", Waits: "TryLockContext, 10 ms",
		Offers: offers{Crash: kernelIs, Cancel: "context"}, lock: gofrsContext, poll: ownPoll},
	{Name: "go-internal/lockedfile", module: "github.com/rogpeppe/go-internal", Waits: inKernel,
		Offers: offers{Crash: kernelIs}, lock: lockedFile, shared: lockedFileShared},
	{Name: "juju/mutex", module: "github.com/juju/mutex/v2", Waits: inKernel + ", in a goroutine",
		Offers: offers{Crash: kernelIs, Cancel: "channel"}, lock: jujuMutex,
		files: func(path string) []string {
			return []string{filepath.Join(filepath.Dir(path), "juju-"+filepath.Base(path))}
		}},
	{Name: "juju/fslock", module: "github.com/juju/fslock", Waits: inKernel,
		Offers: offers{Crash: kernelIs, Cancel: "time limit"}, lock: jujuFslock},
	{Name: "nightlyone/lockfile", module: "github.com/nightlyone/lockfile", Waits: tries,
		Offers: offers{Identity: "pid", Crash: "if the pid is gone", Ownership: "by pid"},
		lock:   nightlyone, poll: ownPoll},
	{Name: "alexflint/go-filemutex", module: "github.com/alexflint/go-filemutex", Waits: inKernel,
		Offers: offers{Crash: kernelIs}, lock: fileMutex, shared: fileMutexShared},
	{Name: "danjacques/gofslock", module: "github.com/danjacques/gofslock", Waits: "its Block hook, which sleeps 10 ms",
		Offers: offers{Crash: kernelIs, Cancel: "by the hook"}, lock: gofslock, shared: gofslockShared, poll: ownPoll},
	{Name: "go4.org/lock", module: "go4.org", Waits: tries,
		Offers: offers{Crash: kernelIs}, lock: polled(go4), poll: ownPoll},
	{Name: "etcd fileutil", module: "go.etcd.io/etcd/client/pkg/v3", Waits: inKernel,
		Offers: offers{Crash: kernelIs}, lock: etcd},
	{Name: "containers/storage", module: "github.com/containers/storage", Waits: inKernel,
		Offers: offers{Identity: "last writer's id", Crash: kernelIs}, lock: containers, shared: containersShared},
	{Name: "pebble vfs", module: "github.com/cockroachdb/pebble/v2", Waits: tries,
		Offers: offers{Crash: kernelIs}, lock: polled(pebble), poll: ownPoll},
	{Name: "prometheus fileutil", module: "github.com/prometheus/prometheus", Waits: tries,
		Offers: offers{Crash: kernelIs}, lock: polled(prometheus), poll: ownPoll},
	{Name: "certmagic FileStorage", module: "github.com/caddyserver/certmagic", Waits: "its own poll, 1 s",
		Offers: offers{Crash: "10 s without a renewal", Cancel: "context"}, lock: certMagic,
		files: func(path string) []string {
			return []string{filepath.Join(filepath.Dir(path), "locks", filepath.Base(path)+".lock")}
		}, poll: time.Second, patience: 3 * time.Second},
	{Name: "flock(1)", version: toolVersion("flock", "--version"), find: inPath("flock"),
		Waits:  inKernel + "; a process for each acquisition (flock FD)",
		Offers: offers{Crash: kernelIs, Cancel: "time limit, signal"}, lock: flockTool, shared: flockToolShared},
	{Name: "proper-lockfile", version: properVersion, find: findProper, script: "agent.js",
		Waits:  "its retries option, set to 10 ms",
		Offers: offers{Crash: "10 s without a renewal", Ownership: "yes, at a renewal"},
		files:  func(path string) []string { return []string{path + ".lock"} },
		poll:   ownPoll},
	{Name: "python fcntl.flock", version: toolVersion("python3", "--version"), find: inPath("python3"), script: "agent.py",
		Waits: inKernel, Offers: offers{Crash: kernelIs, Cancel: "signal"}, shares: true},
}

func inPath(tool string) func() string {
	return func() string {
		if _, err := exec.LookPath(tool); err != nil {
			return tool + " is not installed"
		}
		return ""
	}
}

func toolVersion(tool, flag string) func() string {
	return func() string {
		out, err := exec.Command(tool, flag).Output()
		if err != nil {
			return "unknown"
		}
		return strings.TrimSpace(string(out))
	}
}
