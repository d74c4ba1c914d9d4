package tests

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/holdfast-go/holdfast/internal/testkit"
)

// A liar is a FUSE filesystem that passes everything on to a folder, flock(2) too, but for
// what it is told to lie about.
type liar struct {
	fuse.RawFileSystem

	mu      sync.Mutex
	failure failure
	percent int        // of all operations fail
	sealed  bool       // nothing can be written
	locks   lockAnswer // nil is honest
}

// A failure is one operation that fails with EIO.
type failure struct {
	op   string // one of faultOps
	nth  int    // which one of them; 0: none
	late bool   // it fails only after it was done
	seen int
}

// faultOps are the operations that can fail.
var faultOps = []string{
	"write", "unlink", "fsync", "close", "rename", "link", "mkdir", "setattr", "flock", "unlock",
	"create", "open", "read", "lookup", "stat", "readdir",
}

// changing are those that can also fail after they were done.
var changing = map[string]bool{
	"write": true, "unlink": true, "fsync": true, "close": true, "rename": true, "link": true, "mkdir": true, "setattr": true,
	"flock": true, "unlock": true,
}

// A lockAnswer answers a call of flock(2) for a lock. forward asks the folder, without
// waiting.
type lockAnswer func(cancel <-chan struct{}, forward func() fuse.Status) fuse.Status

func init() { roles["liar"] = serveLies }

// serveLies mounts args[0] at args[1], where the kernel remembers for args[2] what it was told
// of names and files, and does what it is told, until its input ends. (Were it
// the process of the test, that could not end while a call of its own waits for an answer.)
func serveLies(args []string) error {
	root, err := fs.NewLoopbackRoot(args[0])
	if err != nil {
		return err
	}
	remember, err := time.ParseDuration(args[2])
	if err != nil {
		return err
	}
	l := &liar{RawFileSystem: fs.NewNodeFS(root, &fs.Options{EntryTimeout: &remember, AttrTimeout: &remember})}
	server, err := fuse.NewServer(l, args[1], &fuse.MountOptions{
		DirectMountStrict: true, FsName: "holdfast-test", Name: "holdfast", EnableLocks: true, AllowOther: true,
		DisabledCapabilities: fuse.CAP_PASSTHROUGH, // the kernel would keep files open, with their locks, that were closed
	})
	if err != nil {
		fmt.Println("needs the right to mount FUSE:", err)
		return nil
	}
	go server.Serve()
	fmt.Println("mounted:", server.WaitMount())
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		fmt.Println(l.obey(strings.Split(lines.Text(), ",")))
	}
	return nil
}

func (l *liar) obey(order []string) (answer string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch order[0] {
	case "arm":
		l.failure = failure{op: order[1], late: order[3] == "true"}
		l.failure.nth, _ = strconv.Atoi(order[2])
	case "random":
		l.percent, _ = strconv.Atoi(order[1])
	case "read-only":
		l.sealed = true
	case "disarm":
		fired := l.failure.nth > 0 && l.failure.seen >= l.failure.nth
		l.failure, l.percent, l.sealed = failure{}, 0, false
		return fmt.Sprint(fired)
	case "locks":
		l.locks = lockAnswers[order[1]]
	}
	return "done"
}

// A liarAt is a liar that is mounted.
type liarAt struct {
	dir     string
	process *testkit.Child
}

func hasFUSE() error {
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

// throughLiar gives a way to a folder through a liar.
func throughLiar(t *testing.T, dir string, remember time.Duration) liarAt {
	t.Helper()
	if err := hasFUSE(); err != nil {
		t.Skip("needs FUSE: ", err)
	}
	at := t.TempDir()
	l := liarAt{at, testkit.Start(t, "liar", dir, at, remember.String())}
	if said := l.process.Answer(); said != "mounted: <nil>" {
		t.Skip(said)
	}
	t.Cleanup(func() {
		noErr(t, syscall.Unmount(at, syscall.MNT_FORCE|syscall.MNT_DETACH), "unmounting")
	})
	return l
}

// arm has one operation fail, from now on.
func (l liarAt) arm(f failure) {
	l.process.Do(fmt.Sprintf("arm,%s,%d,%v", f.op, f.nth, f.late), "done")
}

// disarm has nothing fail any more, and reports whether it has come to it.
func (l liarAt) disarm() (fired bool) { return l.process.Say("disarm") == "true" }

// answerLocks says how calls of flock(2) are answered: see lockAnswers.
func (l liarAt) answerLocks(how string) { l.process.Do("locks,"+how, "done") }

// withOwnMounts is for tests that mount: as root in place, and else in a user namespace, if
// there may be one.
func withOwnMounts(t *testing.T) bool {
	t.Helper()
	return os.Geteuid() == 0 || testkit.WithMounts(t)
}

// fails reports whether this operation is the one that fails, and whether it is done first.
func (l *liar) fails(op string) (now, late bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if rand.IntN(100) < l.percent {
		return true, rand.IntN(2) == 0
	}
	if l.failure.op != op || l.failure.nth == 0 {
		return false, false
	}
	l.failure.seen++
	return l.failure.seen == l.failure.nth, l.failure.late
}

func (l *liar) do(op string, honest func() fuse.Status) fuse.Status {
	now, late := l.fails(op)
	switch {
	case l.isSealed() && (op == "create" || changing[op] && op != "close" && op != "flock" && op != "unlock" && op != "fsync"):
		return fuse.EROFS
	case !now:
		return honest()
	case late && changing[op]:
		honest()
	}
	return fuse.EIO
}

func (l *liar) isSealed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sealed
}

func (l *liar) Write(cancel <-chan struct{}, in *fuse.WriteIn, data []byte) (n uint32, status fuse.Status) {
	status = l.do("write", func() (s fuse.Status) { n, s = l.RawFileSystem.Write(cancel, in, data); return s })
	return n, status
}

// Writev leaves it to Write.
func (l *liar) Writev(<-chan struct{}, *fuse.WriteIn, [][]byte) (uint32, fuse.Status) {
	return 0, fuse.ENOSYS
}

func (l *liar) Unlink(cancel <-chan struct{}, header *fuse.InHeader, name string) fuse.Status {
	return l.do("unlink", func() fuse.Status { return l.RawFileSystem.Unlink(cancel, header, name) })
}

func (l *liar) Fsync(cancel <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	return l.do("fsync", func() fuse.Status { return l.RawFileSystem.Fsync(cancel, in) })
}

func (l *liar) FsyncDir(cancel <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	return l.do("fsync", func() fuse.Status { return l.RawFileSystem.FsyncDir(cancel, in) })
}

func (l *liar) Flush(cancel <-chan struct{}, in *fuse.FlushIn) fuse.Status {
	return l.do("close", func() fuse.Status { return l.RawFileSystem.Flush(cancel, in) })
}

func (l *liar) Rename(cancel <-chan struct{}, in *fuse.RenameIn, from, to string) fuse.Status {
	return l.do("rename", func() fuse.Status { return l.RawFileSystem.Rename(cancel, in, from, to) })
}

func (l *liar) Link(cancel <-chan struct{}, in *fuse.LinkIn, name string, out *fuse.EntryOut) fuse.Status {
	return l.do("link", func() fuse.Status { return l.RawFileSystem.Link(cancel, in, name, out) })
}

func (l *liar) Create(cancel <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	return l.do("create", func() fuse.Status { return l.RawFileSystem.Create(cancel, in, name, out) })
}

func (l *liar) Mkdir(cancel <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	return l.do("mkdir", func() fuse.Status { return l.RawFileSystem.Mkdir(cancel, in, name, out) })
}

func (l *liar) Open(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	if in.Flags&syscall.O_ACCMODE != syscall.O_RDONLY && l.isSealed() {
		return fuse.EROFS
	}
	return l.do("open", func() fuse.Status { return l.RawFileSystem.Open(cancel, in, out) })
}

func (l *liar) Read(cancel <-chan struct{}, in *fuse.ReadIn, buf []byte) (result fuse.ReadResult, status fuse.Status) {
	status = l.do("read", func() (s fuse.Status) { result, s = l.RawFileSystem.Read(cancel, in, buf); return s })
	return result, status
}

func (l *liar) Lookup(cancel <-chan struct{}, header *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	return l.do("lookup", func() fuse.Status { return l.RawFileSystem.Lookup(cancel, header, name, out) })
}

func (l *liar) GetAttr(cancel <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	return l.do("stat", func() fuse.Status { return l.RawFileSystem.GetAttr(cancel, in, out) })
}

func (l *liar) SetAttr(cancel <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	return l.do("setattr", func() fuse.Status { return l.RawFileSystem.SetAttr(cancel, in, out) })
}

func (l *liar) OpenDir(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	return l.do("readdir", func() fuse.Status { return l.RawFileSystem.OpenDir(cancel, in, out) })
}

func (l *liar) SetLk(cancel <-chan struct{}, in *fuse.LkIn) fuse.Status {
	forward := func() fuse.Status { return l.RawFileSystem.SetLk(cancel, in) }
	if in.Lk.Typ == syscall.F_UNLCK {
		return l.do("unlock", forward)
	}
	l.mu.Lock()
	answer := l.locks
	l.mu.Unlock()
	return l.do("flock", func() fuse.Status {
		if answer != nil {
			return answer(cancel, forward)
		}
		return forward()
	})
}

// SetLkw waits by asking again and again, so that whoever waits can be killed.
func (l *liar) SetLkw(cancel <-chan struct{}, in *fuse.LkIn) fuse.Status {
	for {
		status := l.SetLk(cancel, in)
		if status != fuse.EAGAIN {
			return status
		}
		select {
		case <-cancel:
			return fuse.EINTR
		case <-time.After(time.Millisecond):
		}
	}
}

// lockAnswers are the ways to answer flock(2), beside the honest one.
var lockAnswers = map[string]lockAnswer{
	"ENOSYS":        refuse(syscall.ENOSYS),
	"EOPNOTSUPP":    refuse(syscall.EOPNOTSUPP),
	"ENOLCK":        refuse(syscall.ENOLCK),
	"grants all":    func(<-chan struct{}, func() fuse.Status) fuse.Status { return fuse.OK },
	"late":          answerLate(false),
	"interruptible": answerLate(true),
}

func refuse(errno syscall.Errno) lockAnswer {
	return func(<-chan struct{}, func() fuse.Status) fuse.Status { return fuse.Status(errno) }
}

// answerLate asks the folder after a while. Who can be interrupted meanwhile gets nothing.
func answerLate(interruptible bool) lockAnswer {
	return func(cancel <-chan struct{}, forward func() fuse.Status) fuse.Status {
		if !interruptible {
			cancel = nil
		}
		select {
		case <-cancel:
			return fuse.EINTR
		case <-time.After(rand.N(20 * time.Millisecond)):
			return forward()
		}
	}
}
