package tests

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock/ledger"
)

// entry is an event of these tests. ID is unique to one process, N counts what that
// process appends, Part counts within a batch of Parts.
type entry struct {
	ID    string `json:"id"`
	N     int    `json:"n"`
	Part  int    `json:"part"`
	Parts int    `json:"parts"`
	Pad   string `json:"pad"`
}

// entries are what process id appends as its number n. Their length shows where one
// of them is only half there.
func entries(id string, n, parts int) (batch [][]byte) {
	for part := range parts {
		event, err := json.Marshal(entry{id, n, part, parts, strings.Repeat("x", 100*(n%50))})
		if err != nil {
			panic(err)
		}
		batch = append(batch, event)
	}
	return batch
}

// ledgerAppend appends args[2] times to the ledger at args[0] as args[1], args[3]
// events at a time, and prints the number of each, once it is done. A single event
// goes behind the one that was the last when it looked.
func ledgerAppend(args []string) error {
	l := ledger.Ledger{Dir: args[0], AgentID: args[1], Timeout: testkit.Patience}
	count, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	parts, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	l.NoSync = parts > 1 // so that more of the time goes into publishing
	for n := 0; n < count; {
		batch := entries(l.AgentID, n, parts)
		var sequence int64
		if parts > 1 {
			sequence, err = l.AppendBatch(context.Background(), batch)
		} else {
			var last int64
			if last, err = l.Sequence(); err != nil {
				return err
			}
			sequence, err = l.AppendIfSequence(context.Background(), batch[0], last)
			if errors.Is(err, ledger.ErrSequenceMismatch) {
				continue
			}
		}
		if err != nil {
			return err
		}
		fmt.Println(sequence)
		n++
	}
	return nil
}

// lane is a place in which one process after another appends until there are
// enough.
type lane struct {
	cmd     *exec.Cmd
	id      string
	round   int
	missing int
	killed  bool // and not yet known to have ended
}

// progress is that a process has appended, or has ended.
type progress struct {
	lane     int
	sequence int64
	ended    bool
}

func (a *appenders) launch(i int) {
	l := &a.lanes[i]
	l.id, l.killed = fmt.Sprintf("%d.%d", i, l.round), false
	l.round++
	l.cmd = play(a.t, "ledger", a.dir, l.id, strconv.Itoa(l.missing), strconv.Itoa(a.parts))
	out := must(l.cmd.StdoutPipe())(a.t)
	check(a.t, l.cmd.Start())
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			n, err := strconv.ParseInt(lines.Text(), 10, 64)
			if err != nil {
				panic(err)
			}
			a.reports <- progress{lane: i, sequence: n}
		}
		a.reports <- progress{lane: i, ended: true}
	}()
}

// appenders are processes that append, and are killed and replaced.
type appenders struct {
	t        *testing.T
	dir      string
	parts    int
	lanes    []lane
	reports  chan progress
	reported map[string][]int64 // by process
	kills    int
}

// run has procs processes append count times each, and kills one after every so many appends,
// wherever that one is: by time, a busy machine would kill each before it has appended.
func (a *appenders) run(procs, count, every int) {
	a.lanes, a.reported = make([]lane, procs), map[string][]int64{}
	a.reports = make(chan progress, procs*(count+1)) // so that nobody has to read what comes after a failure
	a.t.Cleanup(func() {
		for _, l := range a.lanes {
			if l.cmd != nil {
				l.cmd.Process.Kill()
			}
		}
	})
	for i := range a.lanes {
		a.lanes[i].missing = count
		a.launch(i)
	}
	for appended, running := 0, procs; running > 0; {
		r := <-a.reports
		l := &a.lanes[r.lane]
		if !r.ended {
			a.reported[l.id] = append(a.reported[l.id], r.sequence)
			l.missing--
			if appended++; appended%every == 0 {
				a.kill(rand.IntN(procs))
			}
			continue
		}
		a.ended(l)
		if l.missing > 0 {
			a.launch(r.lane)
		} else {
			running--
		}
	}
}

func (a *appenders) kill(i int) {
	if l := &a.lanes[i]; l.missing > 0 && !l.killed {
		l.killed = true
		l.cmd.Process.Kill()
	}
}

// ended takes note of the end of a process.
func (a *appenders) ended(l *lane) {
	err := l.cmd.Wait()
	switch {
	case err == nil:
	case l.killed && strings.Contains(err.Error(), "killed"):
		a.kills++
	default:
		a.t.Fatalf("a process ended by itself: %v", err)
	}
}

// check reads the ledger: all that was reported is there, once, in its order, and
// nothing but that and what somebody was killed before reporting.
func (a *appenders) check() {
	a.t.Helper()
	last := int64(0)
	next := map[string]int{} // the entry that each process has yet to append
	var batch *entry         // the part that the next one follows, within a batch
	for event, err := range (ledger.Ledger{Dir: a.dir}).Events(0) {
		check(a.t, err)
		if last++; event.Sequence != last {
			a.t.Fatalf("event %d follows %d", event.Sequence, last-1)
		}
		var e entry
		check(a.t, json.Unmarshal(event.Data, &e))
		if want := entries(e.ID, e.N, e.Parts)[e.Part]; string(want) != string(event.Data) {
			a.t.Errorf("event %d is not what was appended: %s", last, event.Data)
		}
		switch {
		case batch == nil && e.Part != 0, batch != nil && (e.ID != batch.ID || e.N != batch.N || e.Part != batch.Part+1):
			a.t.Fatalf("event %d (%+v) parts a batch (%+v)", last, e, batch)
		case e.Part+1 < e.Parts:
			batch = &e
			continue
		}
		batch = nil
		if e.N != next[e.ID] {
			a.t.Fatalf("event %d is number %d of process %s, not %d", last, e.N, e.ID, next[e.ID])
		}
		next[e.ID]++
		if said := a.reported[e.ID]; e.N < len(said) && said[e.N] != last {
			a.t.Errorf("number %d of process %s was reported as event %d, and is %d", e.N, e.ID, said[e.N], last)
		}
	}
	if batch != nil {
		a.t.Errorf("the ledger ends within a batch: %+v", *batch)
	}
	for id, said := range a.reported {
		if len(said) > next[id] || next[id] > len(said)+1 {
			a.t.Errorf("process %s reported %d, and %d are there", id, len(said), next[id])
		}
	}
	a.t.Logf("%d events, %d kills", last, a.kills)
}

// leftovers are files that no live writer has a use for.
func leftovers(t *testing.T, dir string) (found []string) {
	t.Helper()
	for _, pattern := range []string{".event-*", ".batch", "ledger.lock", "ledger.lock.reclaim*"} {
		names := must(filepath.Glob(filepath.Join(dir, "ledger", pattern)))(t)
		found = append(found, names...)
	}
	return found
}

// TestLedger_Chaos: eight processes append events, and one of them is killed after every 25. What was reported done is there once and in order, without a
// gap and without half an event; and what the dead left goes with the next append.
func TestLedger_Chaos(t *testing.T) {
	a := appenders{t: t, dir: t.TempDir(), parts: 1}
	a.run(8, testkit.Rounds(500, 4), 25)
	a.check()
	check(t, errOf((ledger.Ledger{Dir: a.dir}).Append(context.Background(), []byte(`"end"`))))
	if left := leftovers(t, a.dir); left != nil {
		t.Errorf("left behind: %q", left)
	}
}

// TestLedger_ChaosOfBatches: the same with several events at a time. All of them are
// there, with nothing in between, or none.
func TestLedger_ChaosOfBatches(t *testing.T) {
	a := appenders{t: t, dir: t.TempDir(), parts: 40}
	a.run(2, 50, 3)
	// The last batch may be decided, and its writer dead.
	check(t, errOf((ledger.Ledger{Dir: a.dir}).AppendBatch(context.Background(), entries("end", 0, 1))))
	a.check()
	if left := leftovers(t, a.dir); left != nil {
		t.Errorf("left behind: %q", left)
	}
}

// ledgerRace appends to the ledger at args[0], if it is at the number that it reads.
func ledgerRace(args []string) error {
	l := ledger.Ledger{Dir: args[0], Timeout: time.Minute}
	for orders := bufio.NewScanner(os.Stdin); orders.Scan(); {
		expected, err := strconv.ParseInt(orders.Text(), 10, 64)
		if err != nil {
			return err
		}
		_, err = l.AppendIfSequence(context.Background(), []byte(strconv.Itoa(os.Getpid())), expected)
		switch {
		case err == nil:
			fmt.Println("won")
		case errors.Is(err, ledger.ErrSequenceMismatch):
			fmt.Println("lost")
		default:
			return err
		}
	}
	return nil
}

// TestLedger_OneWinner: of ten processes that append at one sequence, one does.
func TestLedger_OneWinner(t *testing.T) {
	const procs, rounds = 10, 30
	dir := t.TempDir()
	var all []*testkit.Child
	for range procs {
		all = append(all, testkit.Start(t, "ledger-cas", dir))
	}
	for round := range int64(rounds) {
		for _, c := range all {
			c.Order(fmt.Sprint(round))
		}
		won := 0
		for _, c := range all {
			if c.Answer() == "won" {
				won++
			}
		}
		if last, err := (ledger.Ledger{Dir: dir}).Sequence(); won != 1 || last != round+1 || err != nil {
			t.Fatalf("round %d: %d have won, and the last event is %d, %v", round, won, last, err)
		}
	}
}

// script is how another program appends, in a shell, with a folder as its lock,
// as af publishes it for other tools.
const script = `#!/bin/bash
LEDGER_DIR="$1/ledger"
LOCK_FILE="$LEDGER_DIR/ledger.lock"

while ! mkdir "$LOCK_FILE" 2>/dev/null; do
    sleep 0.01
done

NEXT_SEQ=$(ls "$LEDGER_DIR"/event-*.json 2>/dev/null | wc -l)
NEXT_SEQ=$((NEXT_SEQ + 1))

TEMP_FILE=$(mktemp "$LEDGER_DIR/.event-XXXXX.tmp")
echo '{"type":"custom_event","timestamp":"'$(date -u +%Y-%m-%dT%H:%M:%SZ)'"}' > "$TEMP_FILE"

mv "$TEMP_FILE" "$LEDGER_DIR/event-$(printf '%06d' $NEXT_SEQ).json"

rmdir "$LOCK_FILE"
`

// TestLedger_BesideScript: three scripts, each again and again, and three processes
// of ours append to one ledger. No event is lost, none is replaced, and nobody
// waits in vain.
func TestLedger_BesideScript(t *testing.T) { // guards: O4
	const scripts, procs = 3, 3
	runs, count := testkit.Rounds(40, 3), testkit.Rounds(40, 3)
	dir := t.TempDir()
	check(t, os.Mkdir(filepath.Join(dir, "ledger"), 0o700))
	var all sync.WaitGroup
	for range scripts {
		all.Go(func() {
			for range runs {
				if out, err := exec.Command("bash", "-c", script, "bash", dir).CombinedOutput(); err != nil || len(out) > 0 {
					t.Errorf("the script: %v: %s", err, out)
				}
			}
		})
	}
	for i := range procs {
		all.Go(func() {
			cmd := play(t, "ledger", dir, fmt.Sprint("ours", i), strconv.Itoa(count), "1")
			if out, err := cmd.Output(); err != nil {
				t.Errorf("ours: %v after %d appends", err, strings.Count(string(out), "\n"))
			}
		})
	}
	all.Wait()
	theirs, ours := 0, map[string]int{}
	for event, err := range (ledger.Ledger{Dir: dir}).Events(0) {
		check(t, err)
		var e entry
		check(t, json.Unmarshal(event.Data, &e))
		if e.ID == "" {
			theirs++
		} else if e.N != ours[e.ID] {
			t.Errorf("event %d is number %d of %s, not %d", event.Sequence, e.N, e.ID, ours[e.ID])
		} else {
			ours[e.ID]++
		}
	}
	equal(t, theirs, scripts*runs, "events of the scripts")
	for i := range procs {
		if id := fmt.Sprint("ours", i); ours[id] != count {
			t.Errorf("%d events of %s, want %d", ours[id], id, count)
		}
	}
}
