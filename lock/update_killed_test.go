package lock_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/lock"
)

// A ledger is what tally keeps. Its padding, of varying length, makes a torn or
// truncated file show.
type ledger struct {
	Total int
	By    map[string]int
	Pad   string
}

func readLedger(data []byte) (l ledger, err error) {
	if data == nil {
		return ledger{By: map[string]int{}}, nil
	}
	if err := json.Unmarshal(data, &l); err != nil {
		return l, fmt.Errorf("torn: %w", err)
	}
	sum := 0
	for _, n := range l.By {
		sum += n
	}
	if sum != l.Total || l.Pad != padding(l.Total) {
		return l, fmt.Errorf("torn: total %d, sum %d, padding of %d bytes", l.Total, sum, len(l.Pad))
	}
	return l, nil
}

func padding(total int) string {
	return strings.Repeat(string(rune('a'+total%26)), total*7919%20000)
}

// tally counts under the name that it is told, in the file at path, until it is
// killed, and reports each count that is done.
func tally(path string, orders *bufio.Scanner) {
	orders.Scan()
	name := orders.Text()
	for {
		count := 0
		err := lock.Update(context.Background(), path, func(old []byte) ([]byte, error) {
			l, err := readLedger(old)
			if err != nil {
				return nil, err
			}
			l.By[name]++
			l.Total++
			count, l.Pad = l.By[name], padding(l.Total)
			return json.Marshal(l)
		})
		if err != nil {
			fmt.Println("error:", err)
			return
		}
		fmt.Println(count)
	}
}

// TestUpdate_Killed: several processes count in one file, and are killed at any
// moment. The file is whole whenever one looks, and has every count that was
// reported done.
func TestUpdate_Killed(t *testing.T) {
	const procs, kills = 4, 60
	path := filepath.Join(t.TempDir(), "ledger")
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for last := 0; ; {
				data, err := os.ReadFile(path)
				if err == nil {
					var l ledger
					if l, err = readLedger(data); err == nil && l.Total < last {
						err = fmt.Errorf("total went from %d to %d", last, l.Total)
					}
					last = l.Total
				}
				if err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.Error(err)
					return
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}

	type teller struct {
		*child
		name string
	}
	reported := map[string]string{} // the last that each has said
	next := 0
	hire := func() teller {
		next++
		w := teller{start(t, "tally", path), fmt.Sprint("teller", next)}
		w.Order(w.name)
		return w
	}
	fire := func(w teller) {
		for range 1 + rand.IntN(4) {
			reported[w.name] = w.Answer()
		}
		for range rand.IntN(200_000) { // any instruction of an update
			runtime.KeepAlive(w)
		}
		w.Cmd.Process.Kill()
		for line, more := w.Line(); more; line, more = w.Line() {
			reported[w.name] = line
		}
		w.Cmd.Wait()
	}
	var all []teller
	for range procs {
		all = append(all, hire())
	}
	for range kills {
		i := rand.IntN(procs)
		fire(all[i])
		all[i] = hire()
	}
	for _, w := range all {
		fire(w)
	}
	close(stop)
	readers.Wait()

	// The next one needs no hand, and replaces what the killed have left.
	var end ledger
	update(t, path, func(old []byte) (_ []byte, err error) {
		end, err = readLedger(old)
		return append(old, '\n'), err // another, so that it is written
	})
	hasContents(t, path, string(getFile(t, path))) // no litter, nor a lock
	equal(t, len(reported), procs+kills, "have reported")
	for name, last := range reported {
		// It may have died between the update and the report.
		if n := end.By[name]; last != fmt.Sprint(n) && last != fmt.Sprint(n-1) {
			t.Errorf("%s reported %q, and %d are in the file", name, last, n)
		}
	}
	t.Logf("%d updates, %d kills", end.Total, kills+procs)
}
