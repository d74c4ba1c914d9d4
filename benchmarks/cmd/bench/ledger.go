//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/ledger"
	"golang.org/x/sys/unix"
)

const callsFloor = "floor: the bare calls"

// event is of an ordinary size.
var event = []byte(`{"type":"node_created","timestamp":"2026-01-02T03:04:05Z","node_id":"1.2.3","owner":"prover-1"}`)

// ledger measures appending to ledgers of all sizes, and changing a file, against the
// system calls that make the change durable, without any lock.
func (b *bench) ledger() {
	for _, n := range pick(b, []int{1_000, 10_000, 100_000, 1_000_000}, []int{1_000, 10_000}) {
		dir := filepath.Dir(b.fresh(b.disk))
		if err := fill(dir, n); err != nil {
			b.r.Skipped = append(b.r.Skipped, "ledger: "+err.Error())
			return
		}
		for _, sync := range []bool{true, false} {
			setting := fmt.Sprintf("append to %d events, no fsync", n)
			if sync {
				setting = fmt.Sprintf("append to %d events, fsync", n)
			}
			l := ledger.Ledger{Dir: dir, NoSync: !sync}
			// The first append of all looks for the end.
			if _, err := l.Append(context.Background(), event); err != nil {
				b.r.Skipped = append(b.r.Skipped, setting+": "+err.Error())
				continue
			}
			inside := filepath.Join(dir, "ledger")
			b.r.Ledger = append(b.r.Ledger, takeTurns(setting, pick(b, 100, 3), 3*time.Second, callsFloor, []contestant{
				{callsFloor, func() (float64, error) {
					final := filepath.Join(inside, "bare")
					ns, err := timed(func() error { return replaceFile(inside, final, event, sync) })()
					return ns, errors.Join(err, os.Remove(final))
				}},
				{oursName, timed(func() error { _, err := l.Append(context.Background(), event); return err })},
			})...)
		}
		os.RemoveAll(dir)
	}
	dir := filepath.Dir(b.fresh(b.disk))
	bare, ours := filepath.Join(dir, "bare"), filepath.Join(dir, "ours")
	turn := 0
	next := func() []byte { // what is there already would not be written again
		turn++
		return append(bytes.Clone(event), byte('0'+turn%10))
	}
	b.r.Ledger = append(b.r.Ledger, takeTurns("Update of a small file", pick(b, 100, 3), 3*time.Second, callsFloor, []contestant{
		{callsFloor, timed(func() error {
			if _, err := os.ReadFile(bare); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
			return replaceFile(dir, bare, next(), true)
		})},
		{oursName, timed(func() error {
			return lock.Update(context.Background(), ours, func([]byte) ([]byte, error) { return next(), nil })
		})},
	})...)
}

// replaceFile writes a file beside its place, and renames it there.
func replaceFile(dir, final string, data []byte, sync bool) error {
	temp := filepath.Join(dir, ".temp")
	file, err := unix.Open(temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	err = inTurn(
		func() error { _, err := unix.Write(file, data); return err },
		func() error {
			if !sync {
				return nil
			}
			return unix.Fsync(file)
		},
		func() error { return unix.Close(file) },
		func() error { return unix.Rename(temp, final) },
	)
	if err != nil || !sync {
		return err
	}
	folder, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return inTurn(func() error { return unix.Fsync(folder) }, func() error { return unix.Close(folder) })
}

// fill makes a ledger of n events, most of them names of one file.
func fill(dir string, n int) error {
	const maxLinks = 60_000 // ext4 allows 65,000
	if err := os.Mkdir(filepath.Join(dir, "ledger"), 0o700); err != nil {
		return err
	}
	var file string
	for i := range n {
		path := filepath.Join(dir, "ledger", fmt.Sprintf("event-%06d.json", i+1))
		if i%maxLinks == 0 {
			file = path
			if err := os.WriteFile(path, event, 0o600); err != nil {
				return err
			}
		} else if err := os.Link(file, path); err != nil {
			return err
		}
	}
	return nil
}
