package tests

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sys/unix"
)

// Chaos: processes that do at random whatever can be done with locks are killed, stopped and
// continued at any moment, while hands take files away, the disk fills, and other programs
// take part. Oracles that don't use the library look on (chaos_board), and what is left is
// looked at in the end (chaos_after).
var (
	chaosKillsFlag  = flag.Int("chaos.kills", 0, "how many `processes` each test of chaos kills; 0: few")
	chaosSeedFlag   = flag.Uint64("chaos.seed", 0, "the `seed` of the driver's schedule; 0: by chance")
	chaosForFlag    = flag.Duration("chaos.for", 0, "how `long` a test may take; then no further batch begins. 0: as long as it takes")
	chaosReportFlag = flag.String("chaos.report", "", "the `file` to append the figures to")
)

// A chaos is one way to disturb.
type chaos struct {
	name string
	// ways are where the folder of the locks can be seen; the processes take turns.
	ways   func(t *testing.T, dir string) []string
	stops  bool // processes are stopped, too
	hand   hand // takes files away
	others bool // programs that don't use the library take part
	fills  bool // the disk is full, from time to time
	acts   []string
	fault  string // is planted in one process
	oracle string // is the only one
	// patience is how long a lock may take to be had when all have been killed: 0 means
	// that it must be there at once.
	patience time.Duration
	crowd    int    // 0: six
	turns    uint64 // how many things are begun between two steps of the driver, on average; 0: four
}

// figures are what is to be told of a chaos.
type figures struct {
	acquired, kills, stops int
	taken, lost, broken    int
	took                   time.Duration
}

func (f *figures) add(g figures) {
	f.acquired += g.acquired
	f.kills += g.kills
	f.stops += g.stops
	f.taken += g.taken
	f.lost += g.lost
	f.broken += g.broken
	f.took += g.took
}

// killsInABatch is how many are killed before what is left is looked at.
const killsInABatch = 250

// storm drives one batch of a chaos.
type storm struct {
	chaos
	*testing.T
	engine  string
	address string   // a folder, which is the batch's own, or a database
	ways    []string // to it
	oracles string   // a folder for what the oracles need
	seed    uint64
	rand    *rand.Rand
	board   *board
	all     []*player
	stderr  *os.File
	unsure  [chaosThings]int // counters of who was killed in raising them
	sum     figures
}

// player is one process.
type player struct {
	cmd     *exec.Cmd
	kind    string
	starts  int
	stopped int // for how many further steps
}

// raise kills so many, and returns what has come of it. Whatever must not be ends the test,
// unless a fault is planted.
func (c chaos) raise(t *testing.T, e, address string, seed uint64, kills int) (f figures, seen []string) {
	t.Helper()
	began := time.Now()
	s := &storm{chaos: c, T: t, engine: e, address: address, oracles: t.TempDir(), seed: seed, rand: rand.New(rand.NewPCG(seed, 1))}
	s.ways = []string{address}
	if c.ways != nil {
		s.ways = c.ways(t, address)
	}
	b := must(openBoard(s.path("board")))(t)
	defer b.close()
	s.board = b
	s.stderr = must(os.Create(s.path("stderr")))(t)
	defer s.stderr.Close()
	defer s.killAll()
	if engines[e].files {
		s.prepare()
	}
	s.begin()
	s.disturb(kills)
	s.killAll()
	s.lookAfterwards()
	said := must(os.ReadFile(s.stderr.Name()))(t)
	if len(said) > 0 {
		if c.fault == "" {
			t.Logf("processes said:\n%s", said)
		}
		b.breaks("a process said: %s", bytes.TrimSpace(said))
	}
	s.sum.took = time.Since(began)
	s.sum.broken = int(b.broken.Load())
	for i := range b.slots {
		s.sum.lost += int(b.slots[i].lost.Load())
	}
	for i := range b.things {
		s.sum.acquired += int(b.things[i].had.Load())
	}
	return s.sum, b.sightings()
}

func (s *storm) path(name string) string { return filepath.Join(s.oracles, name) }

func (s *storm) begin() {
	kinds := make([]string, 6)
	if s.crowd > 0 {
		kinds = make([]string, s.crowd)
	}
	if s.others {
		kinds = append(kinds, kindExcl)
		if _, err := exec.LookPath("flock"); err == nil {
			kinds = append(kinds, kindFlock)
		}
	}
	for i, kind := range kinds {
		s.all = append(s.all, &player{kind: kind})
		s.start(i)
	}
}

func (s *storm) start(i int) {
	s.Helper()
	p := s.all[i]
	p.starts++
	r := part{
		Engine: s.engine, Address: s.ways[i%len(s.ways)], Board: s.path("board"), Bytes: s.path("bytes"), Slot: i,
		Seed: s.seed<<20 + uint64(p.starts)<<4 + uint64(i), Acts: s.acts, Kind: p.kind, HandOn: s.hand, MayBeFull: s.fills, Oracle: s.oracle,
	}
	if i == 0 {
		r.Fault = s.fault
	}
	if s.fault != "" {
		r.HandOn = handOnAll // it may be one
	}
	text := must(json.Marshal(r))(s.T)
	p.cmd = play(s.T, "actor", string(text))
	if p.kind == kindFlock {
		sibling := plainLocks{filepath.Join(s.address, "plain")}.file(chaosKey(0)).Path + ".flock"
		p.cmd.Args = append([]string{"flock", "--no-fork", sibling, p.cmd.Path}, p.cmd.Args[1:]...)
		p.cmd.Path = must(exec.LookPath("flock"))(s.T)
	}
	p.cmd.Env = append(p.cmd.Env, "GOGC=off") // they don't grow old
	if i%3 > 0 {
		p.cmd.Env = append(p.cmd.Env, "GOMAXPROCS=1") // these start faster
	}
	p.cmd.Stderr = s.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	check(s.T, p.cmd.Start())
}

const (
	// pace is how long the driver waits before it looks whether to go on, at most.
	pace = 3 * time.Millisecond
	// usualTurns are those of chaos.turns.
	usualTurns = 4
)

// disturb kills so many, each of whom is replaced.
func (s *storm) disturb(kills int) {
	calm := s.unrest()
	defer calm()
	for s.sum.kills < kills && s.board.broken.Load() == 0 {
		s.letThemWork()
		i := s.rand.IntN(len(s.all))
		switch p := s.all[i]; {
		case s.stops && p.stopped == 0 && s.rand.IntN(3) == 0:
			p.stopped = 1 + s.rand.IntN(12)
			s.stopOne(p)
		default:
			s.killAtOnce(s.rand.Perm(len(s.all))[:1+s.rand.IntN(3)])
		}
		s.goOn()
	}
	for _, p := range s.all {
		if p.stopped > 0 {
			p.stopped = 1
		}
	}
	s.goOn()
	calm()
	if s.board.broken.Load() == 0 && s.asks(oracleProgress) {
		s.wantProgress()
	}
}

// unrest has the hand at work, and the disk be filled, until it is called off.
func (s *storm) unrest() (calm func()) {
	over := make(chan struct{})
	var all sync.WaitGroup
	if s.hand != noHand {
		all.Go(func() { s.sum.taken = s.takeAway(rand.New(rand.NewPCG(s.seed, 2)), over) })
	}
	if s.fills {
		all.Go(func() { s.fill(rand.New(rand.NewPCG(s.seed, 3)), over) })
	}
	return sync.OnceFunc(func() {
		close(over)
		all.Wait()
	})
}

// letThemWork lets some time pass, and some things be done, however busy the machine is.
func (s *storm) letThemWork() {
	turns := func() (n uint64) {
		for i := range s.all {
			n += s.board.slots[i].turn.Load()
		}
		return n
	}
	average := cmp.Or(s.turns, usualTurns)
	until, latest := turns()+s.rand.Uint64N(2*average), time.Now().Add(time.Duration(average)*50*time.Millisecond)
	for {
		time.Sleep(rand.N(pace)) // any instruction
		if turns() >= until || time.Now().After(latest) || s.board.broken.Load() > 0 {
			return
		}
	}
}

func (s *storm) stopOne(p *player) {
	s.sum.stops++
	check(s.T, p.cmd.Process.Signal(syscall.SIGSTOP))
}

// goOn has those go on who were stopped for long enough, and sees to those who have ended.
func (s *storm) goOn() {
	for i, p := range s.all {
		if p.stopped > 0 {
			if p.stopped--; p.stopped == 0 {
				check(s.T, p.cmd.Process.Signal(syscall.SIGCONT))
			}
		}
		if p.kind == kindFlock && p.hasEnded(unix.WNOHANG) {
			s.bury(i)
			s.start(i)
		}
	}
}

// wantProgress: nobody is stuck. Other programs are promised no place in any queue.
func (s *storm) wantProgress() {
	for i, p := range s.all {
		if p.kind != "" {
			continue
		}
		turn := &s.board.slots[i].turn
		for before, until := turn.Load(), time.Now().Add(s.limit()); turn.Load() == before; time.Sleep(time.Millisecond) {
			if time.Now().After(until) {
				s.board.breaks("STUCK: process %d", p.cmd.Process.Pid)
				check(s.T, p.cmd.Process.Signal(syscall.SIGQUIT)) // it says where it is
				p.hasEnded(0)
				return
			}
			if s.board.broken.Load() > 0 {
				return
			}
			s.goOn()
		}
	}
}

// limit bounds what must not hang.
func (s *storm) limit() time.Duration {
	if s.fault != "" {
		return 3 * time.Second // it will
	}
	return testkit.Patience
}

// killAtOnce kills some, and starts others in their places.
func (s *storm) killAtOnce(some []int) {
	s.Helper()
	for _, i := range some {
		s.sum.kills++
		check(s.T, s.all[i].cmd.Process.Kill())
	}
	for _, i := range some {
		s.all[i].hasEnded(0)
		s.bury(i)
		s.start(i)
	}
}

// hasEnded reports whether the process has ended, or waits until it has. It is not reaped: its
// pid is still its own.
func (p *player) hasEnded(options int) bool {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, p.cmd.Process.Pid, &info, unix.WEXITED|unix.WNOWAIT|options, nil)
		if err != unix.EINTR {
			return err == nil && info.Signo != 0
		}
	}
}

// bury looks at what a process that has ended was about, clears its slot, and reaps it.
func (s *storm) bury(i int) {
	s.Helper()
	p, slot := s.all[i], &s.board.slots[i]
	if raising := slot.raising.Swap(0); raising > 0 {
		s.unsure[raising-1]++
	}
	for t := range slot.in {
		slot.in[t].Store(0)
	}
	slot.pid.Store(0)
	slot.turn.Add(1)
	p.stopped = 0
	err := p.cmd.Wait()
	if (err != nil || p.kind != kindFlock) && !strings.Contains(fmt.Sprint(err), "killed") {
		s.board.breaks("a process ended by itself: %v", err)
	}
	p.cmd = nil
}

func (s *storm) killAll() {
	for _, p := range s.all {
		if p.cmd != nil {
			s.sum.kills++
			check(s.T, p.cmd.Process.Kill())
		}
	}
	for i, p := range s.all {
		if p.cmd != nil {
			p.hasEnded(0)
			s.bury(i)
		}
	}
}

func (s *storm) asks(which string) bool { return s.oracle == "" || s.oracle == which }

// The oracles of the driver.
const (
	oracleProgress = "progress"
	oracleAtOnce   = "at once"
	oracleFolder   = "folder"
	oracleReports  = "reports"
)

// batch raises a chaos once, in a folder of its own, and ends the test if anything was seen
// that must not be.
func (c chaos) batch(t *testing.T, e, dir string, kills int) figures {
	t.Helper()
	seed := *chaosSeedFlag
	if seed == 0 {
		seed = rand.Uint64N(1 << 32) // short, to be typed
	}
	address := dir
	if engines[e].files {
		var err error
		address, err = os.MkdirTemp(dir, "batch")
		check(t, err)
	}
	f, seen := c.raise(t, e, address, seed, kills)
	if len(seen) > 0 {
		t.Errorf("%s, -chaos.seed=%d: %s", c.name, seed, strings.Join(seen, "\n"))
	}
	if engines[e].files {
		check(t, os.RemoveAll(address))
	}
	return f
}

// report is what has come of several chaoses, by their names.
type chaosReport struct {
	mu   sync.Mutex
	rows []string
	sum  map[string]figures
}

func (r *chaosReport) add(row string, f figures) {
	r.mu.Lock()
	defer r.mu.Unlock()
	sum, there := r.sum[row]
	if !there {
		r.rows = append(r.rows, row)
	}
	sum.add(f)
	if r.sum == nil {
		r.sum = map[string]figures{}
	}
	r.sum[row] = sum
}

// run raises each chaos in turn, until so many were killed in all, or it has taken long enough.
func (r *chaosReport) run(t *testing.T, all []chaos, e, place string, dir func(chaos) string, kills int) {
	t.Helper()
	const maxFailures = 3
	failures := 0
	until := time.Now().Add(*chaosForFlag)
	for n, killed := 0, 0; n < len(all) || killed < kills && (*chaosForFlag == 0 || time.Now().Before(until)); n++ {
		c := all[n%len(all)]
		f := c.batch(t, e, dir(c), min(killsInABatch, (kills+len(all)-1)/len(all)))
		r.add(place+"\t"+c.name, f)
		if killed += f.kills; f.broken > 0 {
			if failures++; failures == maxFailures {
				return
			}
		}
	}
}

// tell logs a table, and appends it to a file, if one was named.
func (r *chaosReport) tell(t *testing.T) {
	t.Helper()
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "where\twhat\tacquisitions\tkills\tstops\ttaken away\ttold of a loss\tviolations\tseconds")
	var sum figures
	row := func(name string, f figures) {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%.0f\n", name, f.acquired, f.kills, f.stops, f.taken, f.lost, f.broken, f.took.Seconds())
	}
	slices.Sort(r.rows)
	for _, name := range r.rows {
		row(name, r.sum[name])
		sum.add(r.sum[name])
	}
	row("all\t", sum)
	w.Flush()
	t.Log("\n" + text.String())
	if *chaosReportFlag != "" {
		f, err := os.OpenFile(*chaosReportFlag, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		check(t, err)
		_, err = fmt.Fprintf(f, "%s, %s\n\n%s\n", t.Name(), time.Now().UTC().Format("2006-01-02 15:04 UTC"), text.String())
		check(t, errors.Join(err, f.Close()))
	}
}

// ordinary are what every local filesystem has to stand.
var ordinary = []chaos{
	{name: "kills and stops", stops: true},
	{name: "siblings taken away", stops: true, hand: handOnSiblings},
	{name: "siblings and lock files taken away", hand: handOnAll},
	{name: "beside other programs", stops: true, others: true},
}

// TestChaos: on every filesystem nobody is ever in there with a writer, whatever is taken
// away, and whoever is killed or stopped; fences grow; nothing that was reported done is lost;
// nobody is stuck; and in the end every lock is had at once, and nothing is left but what
// FORMATS.md names.
func TestChaos(t *testing.T) {
	var r chaosReport
	t.Run("on", func(t *testing.T) {
		for _, f := range filesystems {
			t.Run(f.name, func(t *testing.T) {
				dir := f.mount(t)
				t.Parallel()
				r.run(t, ordinary, "files", f.name, func(chaos) string { return dir }, orFew(*chaosKillsFlag/len(filesystems), 4*40))
			})
		}
	})
	r.tell(t)
}

func orFew(kills, few int) int {
	if kills == 0 {
		return testkit.Rounds(few, 2)
	}
	return kills
}

// TestChaosHere is TestChaos in the folder for temporary files, for who can't mount.
func TestChaosHere(t *testing.T) {
	var r chaosReport
	r.run(t, ordinary, "files", "here", func(chaos) string { return t.TempDir() }, orFew(*chaosKillsFlag, 4*60))
	r.tell(t)
}

// TestChaosFull: the disk is full, from time to time: of bytes, and of files.
func TestChaosFull(t *testing.T) {
	var r chaosReport
	dir := mounted(t, "tmpfs", "size=1m,nr_inodes=300")
	r.run(t, []chaos{{name: "full, from time to time", stops: true, fills: true}}, "files", "tmpfs", func(chaos) string { return dir }, orFew(*chaosKillsFlag, 150))
	r.tell(t)
}

// TestChaosTwoWays: half of the processes see the folder through FUSE, whose locks prove
// nothing to the others.
func TestChaosTwoWays(t *testing.T) {
	var r chaosReport
	through := func(remember time.Duration) func(*testing.T, string) []string {
		return func(t *testing.T, dir string) []string { return []string{dir, throughFUSE(t, dir, remember)} }
	}
	acts := []string{"acquire", "try", "share", "try to share"}
	r.run(t, []chaos{
		{name: "two ways", acts: acts, ways: through(0), patience: testkit.Patience},
		{name: "two ways, siblings taken away", acts: acts, ways: through(0), hand: handOnSiblings, patience: testkit.Patience},
		{name: "two ways, remembered", acts: acts, ways: through(time.Second), patience: testkit.Patience},
	}, "files", "FUSE", func(chaos) string { return t.TempDir() }, orFew(*chaosKillsFlag, 3*60))
	r.tell(t)
}

// TestChaosNothingOfOthers: while locks are held by somebody else's program, which takes no
// kernel lock, nothing that is done to siblings has them taken away.
func TestChaosNothingOfOthers(t *testing.T) { // guards: O3
	dir := t.TempDir()
	locks := plainLocks{filepath.Join(dir, "plain")}
	check(t, os.Mkdir(locks.dir, 0o700))
	claim := fmt.Sprintf(`{"pid":%d,"created_at":%q}`, os.Getpid(), time.Now().UTC().Format(time.RFC3339))
	for n := range chaosLocks {
		check(t, os.WriteFile(locks.file(chaosKey(n)).Path, []byte(claim), 0o600))
	}
	c := chaos{hand: handOnSiblings, acts: []string{"acquire", "try", "share", "try to share", "acquire all"}, oracle: oracleSlots}
	f, seen := c.raise(t, "plain files", dir, *chaosSeedFlag, 40)
	that(t, f.acquired == 0 && len(seen) == 0, "had %d times; %q", f.acquired, seen)
	for n := range chaosLocks {
		equal(t, string(must(os.ReadFile(locks.file(chaosKey(n)).Path))(t)), claim, "claim", n)
	}
	t.Logf("%d kills, %d siblings taken away", f.kills, f.taken)
}

// TestChaosPostgreSQL: sessions of a server hold the locks. It notices the dead in its own
// time.
func TestChaosPostgreSQL(t *testing.T) {
	var r chaosReport
	conn := postgreSQL(t)
	r.run(t, []chaos{{name: "kills and stops", stops: true, patience: testkit.Patience}}, "PostgreSQL", "PostgreSQL", func(chaos) string { return conn }, orFew(*chaosKillsFlag, 60))
	r.tell(t)
}

// TestChaosEtcd: the keys of a cluster are the locks. It keeps those of the dead for as long as
// their lease, and takes those of a process that is stopped for longer away, so here none is.
func TestChaosEtcd(t *testing.T) {
	var r chaosReport
	endpoint := etcdServer(t)
	r.run(t, []chaos{{name: "kills", patience: testkit.Patience}}, "etcd", "etcd", func(chaos) string { return endpoint }, orFew(*chaosKillsFlag, 10))
	client := must(etcdClient(endpoint))(t)
	defer client.Close()
	left := func() (keys, forGood []string) { // but for the fences, which stay
		answer := must(client.Get(t.Context(), "holdfast/", clientv3.WithPrefix(), clientv3.WithKeysOnly()))(t)
		for _, kv := range answer.Kvs {
			key := string(kv.Key)
			if strings.HasPrefix(key, "holdfast/fences/") {
				continue
			}
			keys = append(keys, key)
			if kv.Lease == 0 {
				forGood = append(forGood, key)
			}
		}
		return keys, forGood
	}
	if _, forGood := left(); len(forGood) > 0 {
		t.Errorf("left behind for good: %q", forGood)
	}
	if !t.Failed() {
		eventually(t, "all keys have gone with the leases of the killed", func() bool { keys, _ := left(); return len(keys) == 0 })
	}
	r.tell(t)
}
