package tests

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The oracles of the chaos. None of them uses the library: what they say rests on memory that
// all processes share, and on the kernel.

// The things that only one can have at a time are numbered. Each engine's group of them is:
const (
	chaosLocks   = 3 // locks, of which those with odd numbers have fences
	chaosPermits = 2
	chaosGroup   = chaosLocks + chaosPermits + 1 // and who leads
)

// Beside the groups, on files:
const (
	thingUpdated    = 2*chaosGroup + iota // changing a file by Update
	thingLedger                           // having a ledger's lock
	thingDispatched                       // a dispatch claim
	thingClaimed                          // the first of several nodes that are claimed
	chaosNodes      = 8
	chaosThings     = thingClaimed + chaosNodes
)

// A board is the memory that all processes of a chaos share.
type board struct {
	slots    [maxCrowd]slot
	things   [chaosThings]thing
	broken   atomic.Uint64 // how often something was seen that must not be
	seen     [8]sighting
	reported atomic.Uint64
	reports  [1 << 16]report
}

const maxCrowd = 16

// slot is what a process says of itself. The driver clears it when the kernel says that the
// process has gone, and before its pid can be another's.
type slot struct {
	pid     atomic.Uint64
	turn    atomic.Uint64 // raised with each thing that is begun
	had     atomic.Uint64
	lost    atomic.Uint64              // locks that were found to be lost
	raising atomic.Uint64              // 1 + the thing whose counter is raised, and not reported yet
	in      [chaosThings]atomic.Uint32 // inShared, inAlone
}

const (
	inShared = 1
	inAlone  = 2
)

// thing is what was seen of one thing.
type thing struct {
	had     atomic.Uint64
	counter atomic.Uint64 // read, and written back greater by one, by who is alone
	done    atomic.Uint64 // how often that was reported done
	fence   atomic.Uint64 // the last one
}

// report says that something durable was reported done. It must be there in the end.
type report struct {
	what, id, at atomic.Uint64 // at: the sequence number of an event
}

const (
	reportUpdate = 1 + iota
	reportEvent
	reportClaim
	reportUnclaim
)

// sighting is the text of something that must not be.
type sighting struct {
	size atomic.Uint64
	text [1000]byte
}

func openBoard(path string) (*board, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size := int(unsafe.Sizeof(board{}))
	if err := f.Truncate(int64(size)); err != nil {
		return nil, err
	}
	data, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mmap: %w", err)
	}
	return (*board)(unsafe.Pointer(&data[0])), nil
}

func (b *board) close() {
	_ = unix.MunmapPtr(unsafe.Pointer(b), unsafe.Sizeof(board{}))
}

// breaks says that something was seen that must not be.
func (b *board) breaks(format string, args ...any) {
	n := b.broken.Add(1) - 1
	if n < uint64(len(b.seen)) {
		text := fmt.Sprintf(format, args...)
		b.seen[n].size.Store(uint64(copy(b.seen[n].text[:], text)))
	}
}

func (b *board) sightings() (all []string) {
	for i := range b.seen {
		if size := b.seen[i].size.Load(); size > 0 {
			all = append(all, string(b.seen[i].text[:size]))
		}
	}
	return all
}

// report says that something was done.
func (b *board) report(what, id, at uint64) {
	r := &b.reports[b.reported.Add(1)-1]
	r.id.Store(id)
	r.at.Store(at)
	r.what.Store(what) // last: until then there is no report
}

// of returns the reports of one kind, by their ids.
func (b *board) of(what uint64) map[uint64]uint64 {
	all := map[uint64]uint64{}
	for i := range b.reported.Load() {
		if r := &b.reports[i]; r.what.Load() == what {
			all[r.id.Load()] = r.at.Load()
		}
	}
	return all
}

// An oracle is what a process proves by that it is alone, or among readers.
type chaosOracle struct {
	board *board
	me    int
	bytes *os.File // of which each byte stands for a thing
	only  string   // of the oracles, if not all of them
}

// newChaosOracle is to be called before anything else is opened.
func newChaosOracle(boardPath, bytesPath string, me int, only string) (*chaosOracle, error) {
	b, err := openBoard(boardPath)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(bytesPath, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	b.slots[me].pid.Store(uint64(os.Getpid()))
	return &chaosOracle{b, me, f, only}, nil
}

const (
	oracleSlots    = "slots"
	oracleBytes    = "bytes"
	oracleCounters = "counters"
	oracleFences   = "fences"
)

func (o *chaosOracle) asks(which string) bool { return o.only == "" || o.only == which }

// enter says that this process has a thing now, and proves it.
func (o *chaosOracle) enter(thing int, shared bool) {
	how := uint32(inAlone)
	if shared {
		how = inShared
	}
	o.board.slots[o.me].in[thing].Store(how) // first: of two, one is bound to see the other
	if o.asks(oracleSlots) {
		o.lookAtSlots(thing, how)
	}
	if o.asks(oracleBytes) {
		o.lockByte(thing, shared)
	}
}

func (o *chaosOracle) leave(thing int) {
	if o.asks(oracleBytes) {
		if err := o.setByte(thing, unix.F_UNLCK); err != nil {
			o.board.breaks("unlocking a byte: %v", err)
		}
	}
	o.board.slots[o.me].in[thing].Store(0)
	o.board.slots[o.me].had.Add(1)
	o.board.things[thing].had.Add(1)
}

func (o *chaosOracle) lookAtSlots(thing int, how uint32) {
	for i := range o.board.slots {
		if i == o.me {
			continue
		}
		if pid, other := o.in(i, thing); other+how > inShared+inShared && other > 0 && !exiting(pid) {
			o.board.breaks("NOT ALONE, by the slots: pid %d is at %s (%d) when pid %d comes (%d)", pid, thingName(thing), other, os.Getpid(), how)
		}
	}
}

// in says how the process of a slot has a thing.
func (o *chaosOracle) in(slot, thing int) (pid int, how uint32) {
	s := &o.board.slots[slot]
	for {
		before := s.pid.Load()
		how = s.in[thing].Load()
		if s.pid.Load() == before { // else it is another's
			return int(before), how
		}
	}
}

// lockByte locks the byte that stands for a thing. The kernel may give back the locks of who
// was killed in any order; who is on the way out is waited for.
func (o *chaosOracle) lockByte(thing int, shared bool) {
	kind := int16(unix.F_WRLCK)
	if shared {
		kind = unix.F_RDLCK
	}
	for {
		dying := o.someoneDies(thing)
		err := o.setByte(thing, kind)
		switch {
		case err == nil:
			return
		case !errors.Is(err, unix.EAGAIN):
			o.board.breaks("locking a byte: %v", err)
			return
		case !dying && !o.someoneDies(thing):
			if err = o.setByte(thing, kind); err != nil { // it may just have gone
				o.board.breaks("NOT ALONE, by the byte lock: somebody is at %s when pid %d comes", thingName(thing), os.Getpid())
			}
			return
		}
		time.Sleep(100 * time.Microsecond)
	}
}

func (o *chaosOracle) someoneDies(thing int) bool {
	for i := range o.board.slots {
		if pid, how := o.in(i, thing); i != o.me && how > 0 && exiting(pid) {
			return true
		}
	}
	return false
}

func (o *chaosOracle) setByte(thing int, kind int16) error {
	for {
		err := unix.FcntlFlock(o.bytes.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: kind, Start: int64(thing), Len: 1})
		if err != unix.EINTR {
			return err
		}
	}
}

// count raises the counter of a thing, as only who is alone can.
func (o *chaosOracle) count(thing int, dawdle func()) {
	if !o.asks(oracleCounters) {
		return
	}
	t, me := &o.board.things[thing], &o.board.slots[o.me]
	n := t.counter.Load()
	dawdle()
	me.raising.Store(uint64(thing) + 1)
	t.counter.Store(n + 1)
	t.done.Add(1)
	me.raising.Store(0)
}

// fence is told the fence of who is alone.
func (o *chaosOracle) fence(thing int, fence int64) {
	if !o.asks(oracleFences) {
		return
	}
	t := &o.board.things[thing]
	if last := t.fence.Load(); uint64(fence) <= last {
		o.board.breaks("THE FENCE of %s is %d after %d", thingName(thing), fence, last)
	}
	t.fence.Store(uint64(fence))
}

func thingName(thing int) string {
	switch n := thing % chaosGroup; {
	case thing >= thingClaimed:
		return fmt.Sprint("node ", thing-thingClaimed)
	case thing == thingDispatched:
		return "dispatched"
	case thing == thingLedger:
		return "ledger"
	case thing == thingUpdated:
		return "updated"
	case n < chaosLocks:
		return fmt.Sprintf("lock %d of group %d", n, thing/chaosGroup)
	case n < chaosLocks+chaosPermits:
		return fmt.Sprintf("permit %d of group %d", 1+n-chaosLocks, thing/chaosGroup)
	}
	return fmt.Sprintf("leader of group %d", thing/chaosGroup)
}

// exiting asks the kernel whether a process has gone, or is on its way out: then it runs no
// instruction any more, and gives back what it had, one by one.
func exiting(pid int) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return errors.Is(err, unix.ESRCH)
	}
	defer unix.Close(fd)
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0); n > 0 && err == nil {
		return true
	}
	const exiting = 0x4 // PF_EXITING
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return true
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	flags, err := strconv.ParseUint(string(fields[6]), 10, 64)
	return err != nil || flags&exiting != 0 || fields[0][0] == 'Z' || fields[0][0] == 'X'
}

// pass lets others go first.
func pass() { runtime.Gosched() }
