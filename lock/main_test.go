package lock_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/locktest"
)

// roles are what a child can be told to do. Each reads orders from standard
// input, a line each, and answers on standard output, a line each.
var roles = map[string]func(path string, orders *bufio.Scanner){
	"holder":    holder,
	"forgetful": forgetful,
	"parker":    parker,
	"member":    member,
	"set-taker": setTaker,
	"tally":     tally,
}

func TestMain(m *testing.M) {
	locktest.Main(openFallback)
	testkit.Main(m, func(role string, args []string) { roles[role](args[0], bufio.NewScanner(os.Stdin)) })
}

// What these tests have from testkit.
type (
	child     = testkit.Child
	fileState = testkit.FileState
)

var (
	start      = testkit.Start
	check      = testkit.Check
	getFile    = testkit.ReadFile
	putFile    = testkit.PutFile
	isAbsent   = testkit.Absent
	that       = testkit.That
	notYet     = testkit.NotYet
	errOf      = testkit.ErrOf
	noErr      = testkit.NoErr
	wantErr    = testkit.WantErr
	contains   = testkit.Contains
	eventually = testkit.Eventually
	promptly   = testkit.Promptly
	names      = testkit.Names
	treeState  = testkit.TreeState
	sameTree   = testkit.SameTree

	needsTurnstile  = testkit.NeedsTurnstile
	needsMarks      = testkit.NeedsMarks
	needsKernelList = testkit.NeedsKernelList
	needsLeases     = testkit.NeedsLeases
)

func equal[T comparable](t testing.TB, got, want T, what ...any) {
	t.Helper()
	testkit.Equal(t, got, want, what...)
}

func must[T any](got T, err error) func(testing.TB) T { return testkit.Must(got, err) }

// patience bounds what must not hang; nothing is expected to take this long.
const patience = testkit.Patience

// holder acquires and releases as it is told, and proves with a second oracle
// that it is alone: a file that only one can have created.
func holder(path string, orders *bufio.Scanner) {
	var held *lock.FileHold
	occupied := path + ".occupied"
	for orders.Scan() {
		switch orders.Text() {
		case "try":
			var err error
			held, err = lock.File{Path: path, Cmd: "holder"}.TryAcquire(context.Background())
			var locked *lock.LockedError
			switch {
			case errors.As(err, &locked):
				fmt.Println("locked")
			case err != nil:
				fmt.Println("error:", err)
			default:
				f, err := os.OpenFile(occupied, os.O_CREATE|os.O_EXCL, 0o600)
				if err != nil {
					fmt.Println("not alone:", err)
					continue
				}
				f.Close()
				fmt.Println("held")
			}
		case "release":
			if held == nil {
				fmt.Println("released")
				continue
			}
			os.Remove(occupied)
			if err := held.Release(); err != nil {
				fmt.Println("error:", err)
				continue
			}
			held = nil
			fmt.Println("released")
		}
	}
}

// parker acquires and releases, but stops for ever at the step that it is told
// first.
func parker(path string, orders *bufio.Scanner) {
	orders.Scan()
	at := orders.Text()
	reached := false
	held, err := lock.File{Path: path, Cmd: "parker", Tidy: slices.Contains(lock.TidySteps, at)}.Park(func(step string) {
		if step == at && !reached {
			reached = true
			fmt.Println("parked")
			time.Sleep(time.Hour)
		}
	}).TryAcquire(context.Background())
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	fmt.Println("never parked:", held.Release())
}
