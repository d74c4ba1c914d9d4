package tests

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/claims"
	"github.com/holdfast-go/holdfast/lock/dispatch"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/lock/ledger"
)

func init() { roles["rival"] = rival }

// rivalPatience is shorter than that for the rival's answer, so that it says why.
const rivalPatience = testkit.Patience / 2

// rival does what it is told, a line each, and proves each time by the oracle at args[0] that
// it is alone. With a second argument its locks are for all users, and it may become one.
func rival(args []string) error {
	o, err := openOracle(args[0])
	if err != nil {
		return err
	}
	file := lock.File{Cmd: "rival"}
	if len(args) > 1 {
		file.Perm = 0o666
		if args[1] == "nobody" {
			err = testkit.BecomeNobody()
		}
	}
	ctx, kept := context.Background(), map[string]*lock.FileHold{}
	alone := func() error {
		if err := o.enter(false); err != nil {
			return err
		}
		return o.leave()
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		order, path, _ := strings.Cut(lines.Text(), " ")
		said := order
		if err != nil {
			order = "" // it has failed to become what it is to be
		}
		f := file
		f.Path = path
		switch order {
		case "hold":
			if kept[path], err = f.AcquireWithin(ctx, rivalPatience); err == nil {
				err = o.enter(false)
			}
		case "keep": // where age counts, and say if it was taken
			f.StaleAfter = 2 * time.Second
			if kept[path], err = f.TryAcquire(ctx); err == nil {
				go func(lost <-chan struct{}) { <-lost; fmt.Println("lost") }(kept[path].Lost())
			}
		case "follow":
			f.StaleAfter = 2 * time.Second
			kept[path], err = f.AcquireWithin(ctx, rivalPatience)
		case "release":
			err = errors.Join(o.leave(), kept[path].Release())
		case "try":
			var held *lock.FileHold
			if held, err = f.TryAcquire(ctx); err == nil {
				err = errors.Join(alone(), held.Release())
			} else if errors.As(err, new(*lock.LockedError)) {
				said, err = "locked", nil
			}
		case "lock":
			var held *lock.FileHold
			if held, err = f.AcquireWithin(ctx, rivalPatience); err == nil {
				fence, ferr := held.Fence()
				said = fmt.Sprint("lock ", fence)
				err = errors.Join(alone(), ferr, held.Release())
			}
		case "update":
			err = lock.Update(ctx, path, func(old []byte) ([]byte, error) { return append(old, " and the rival's"...), nil })
		case "append":
			_, err = ledger.Ledger{Dir: path, Timeout: rivalPatience}.Append(ctx, []byte(`{"by":"rival"}`))
		case "claims":
			m := claims.Manager{Dir: path, Ledger: ledger.Ledger{Timeout: rivalPatience}}
			if _, err = m.Claim(ctx, "1.9", "rival"); err == nil {
				_, err = m.Reap(ctx)
				err = errors.Join(err, m.Release(ctx, "1.9", "rival"))
			}
		case "dispatch":
			var c *dispatch.Claim
			if c, err = (dispatch.Locks{Dir: path}).Acquire(ctx, "id"); err == nil {
				_, err = c.Release()
			}
		}
		if err != nil {
			said, err = "error: "+strings.ReplaceAll(err.Error(), "\n", "; "), nil
		}
		fmt.Println(said)
	}
	return nil
}

// A lie is one operation of the library, on a filesystem of which one operation fails.
type lie struct {
	t       *testing.T
	dir     string // of its own, on the liar
	below   string // the same, without the liar
	failure failure
	dead    []byte // the claim of a dead process
	rival   *testkit.Child
	oracle  oracle
}

// lieOps are what the library is asked for. Each prepares, and returns what is done on a
// filesystem that fails, and what must hold when it does not fail any more.
var lieOps = map[string]func(l *lie) (do func(context.Context) error, then func(error)){
	"acquire": func(l *lie) (func(context.Context) error, func(error)) { return l.take(lock.File.Acquire) },
	"try":     func(l *lie) (func(context.Context) error, func(error)) { return l.take(lock.File.TryAcquire) },
	"shared": func(l *lie) (func(context.Context) error, func(error)) {
		return l.take(func(f lock.File, ctx context.Context) (*lock.FileHold, error) { return sharing(f).Acquire(ctx) })
	},
	"take over":     (*lie).takeOver,
	"beside holder": (*lie).besideHolder,
	"refused":       (*lie).refused,
	"release":       (*lie).release,
	"fence":         (*lie).fence,
	"update":        (*lie).update,
	"append":        (*lie).appendOne,
	"append batch":  (*lie).appendBatch,
	"claim":         (*lie).claim,
	"reap":          (*lie).reap,
	"dispatch":      (*lie).dispatch,
}

func (l *lie) path() string { return filepath.Join(l.dir, ".lock") }

// tell has the rival do something, which must succeed.
func (l *lie) tell(order, path string) {
	l.t.Helper()
	if said := l.rival.Say(order + " " + path); said != order {
		l.t.Errorf("the rival, told to %s, says: %s", order, said)
	}
}

// free checks that the rival can have the lock at a path.
func (l *lie) free(path string) {
	l.t.Helper()
	if said := l.rival.Say("lock " + path); !strings.HasPrefix(said, "lock ") {
		l.t.Errorf("the lock afterwards: %s", said)
	}
}

// ours checks that a hold is one, and ends it.
func (l *lie) ours(held *lock.FileHold) {
	l.t.Helper()
	noErr(l.t, l.oracle.enter(false))
	equal(l.t, l.rival.Say("try "+held.Path()), "locked", "while it is held the rival says")
	noErr(l.t, l.oracle.leave())
	noErr(l.t, held.Release(), "release")
}

func (l *lie) take(how func(lock.File, context.Context) (*lock.FileHold, error)) (func(context.Context) error, func(error)) {
	var held *lock.FileHold
	return func(ctx context.Context) (err error) {
			held, err = how(lock.File{Path: l.path()}, ctx)
			return err
		}, func(err error) {
			if err == nil {
				l.ours(held)
			}
			l.free(l.path())
		}
}

func (l *lie) takeOver() (func(context.Context) error, func(error)) {
	check(l.t, os.WriteFile(filepath.Join(l.below, ".lock"), l.dead, 0o600))
	return l.take(lock.File.TryAcquire)
}

// besideHolder asks for what somebody else has, and keeps.
func (l *lie) besideHolder() (func(context.Context) error, func(error)) {
	l.tell("hold", l.path())
	below := filepath.Join(l.below, ".lock")
	before := must(os.ReadFile(below))(l.t)
	was := must(os.Stat(below))(l.t)
	return func(ctx context.Context) error {
			held, err := lock.File{Path: l.path()}.TryAcquire(ctx)
			if err == nil {
				l.t.Error("there are two holders")
				held.Release()
			}
			if s, ierr := (lock.File{Path: l.path()}).Inspect(ctx); ierr == nil && s.State != evidence.Held && s.State != evidence.Unknown {
				l.t.Errorf("Inspect: %+v", s)
			}
			if errors.As(err, new(*lock.LockedError)) {
				err = nil
			}
			return err
		}, func(error) {
			after, err := os.ReadFile(below)
			is, serr := os.Stat(below)
			if err != nil || serr != nil || string(after) != string(before) || !os.SameFile(was, is) {
				l.t.Errorf("the holder's file was %s, and is %s, %v", before, after, err)
			}
			l.tell("release", l.path())
			l.free(l.path())
		}
}

// refused meets a claim that proves nothing, so that it has had locks that it must let go of.
func (l *lie) refused() (func(context.Context) error, func(error)) {
	below := filepath.Join(l.below, ".lock")
	claim := fmt.Sprintf(`{"pid":%d,"created_at":%q}`, os.Getpid(), time.Now().UTC().Format(time.RFC3339))
	check(l.t, os.WriteFile(below, []byte(claim), 0o600))
	return func(ctx context.Context) error {
			_, err := lock.File{Path: l.path()}.TryAcquire(ctx)
			if err == nil {
				l.t.Error("another program's lock was taken")
			} else if errors.As(err, new(*lock.LockedError)) {
				err = nil
			}
			return err
		}, func(error) {
			equal(l.t, l.contents(".lock"), claim, "the other's claim")
			check(l.t, os.Remove(below))
			l.free(l.path())
		}
}

func (l *lie) release() (func(context.Context) error, func(error)) {
	held := must(lock.File{Path: l.path()}.TryAcquire(context.Background()))(l.t)
	return func(context.Context) error { return held.Release() }, func(error) { l.free(l.path()) }
}

// fence: what is had grows, whatever has failed.
func (l *lie) fence() (func(context.Context) error, func(error)) {
	held := must(lock.File{Path: l.path()}.TryAcquire(context.Background()))(l.t)
	var fence int64
	return func(context.Context) (err error) { fence, err = held.Fence(); return err },
		func(error) {
			check(l.t, held.Release())
			var next int64
			if said := l.rival.Say("lock " + l.path()); !scan(said, "lock %d", &next) || next <= fence {
				l.t.Errorf("after fence %d the rival says: %s", fence, said)
			}
		}
}

func scan(text, format string, into ...any) bool {
	n, err := fmt.Sscanf(text, format, into...)
	return err == nil && n == len(into)
}

func (l *lie) update() (func(context.Context) error, func(error)) {
	path := filepath.Join(l.dir, "data")
	check(l.t, os.WriteFile(path, []byte("old"), 0o644))
	return func(ctx context.Context) error {
			return lock.Update(ctx, path, func([]byte) ([]byte, error) { return []byte("new"), nil })
		}, func(err error) {
			got := l.contents("data")
			// Only when the folder could not be synced the new contents stand, and may be lost.
			if err == nil && got != "new" || err != nil && got != "old" && !(got == "new" && l.folderNotSynced(err, "")) {
				l.t.Errorf("after %v the contents are %q", err, got)
			}
			l.tell("update", path)
			if now := l.contents("data"); now != got+" and the rival's" {
				l.t.Errorf("after the rival's change of %q: %q", got, now)
			}
		}
}

// folderNotSynced: then what was reported to have failed is there, and may be lost.
func (l *lie) folderNotSynced(err error, folder string) bool {
	var of *fs.PathError
	return errors.As(err, &of) && of.Path == filepath.Join(l.dir, folder)
}

func (l *lie) contents(name string) string {
	l.t.Helper()
	data := must(os.ReadFile(filepath.Join(l.below, name)))(l.t)
	return string(data)
}

func (l *lie) appendOne() (func(context.Context) error, func(error)) { return l.append(`{"n":1}`) }

func (l *lie) appendBatch() (func(context.Context) error, func(error)) {
	return l.append(`{"n":1}`, `{"n":2}`, `{"n":3}`)
}

// append: what was reported done is there, once; what failed is not, unless it says so.
func (l *lie) append(events ...string) (func(context.Context) error, func(error)) {
	ours := ledger.Ledger{Dir: filepath.Join(l.dir, "proof")}
	l.tell("append", ours.Dir)
	return func(ctx context.Context) error {
			var batch [][]byte
			for _, e := range events {
				batch = append(batch, []byte(e))
			}
			_, err := ours.AppendBatch(ctx, batch)
			return err
		}, func(err error) {
			l.tell("append", ours.Dir)
			var got []string
			for e, err := range (ledger.Ledger{Dir: filepath.Join(l.below, "proof")}).Events(0) {
				if err != nil {
					l.t.Errorf("reading: %v", err)
					break
				}
				got = append(got, string(e.Data))
			}
			const rivals = `{"by":"rival"}`
			with, without := strings.Join(append(append([]string{rivals}, events...), rivals), " "), rivals+" "+rivals
			all := strings.Join(got, " ")
			switch {
			case err == nil || errors.Is(err, ledger.ErrUnfinished):
				equal(l.t, all, with, "after", err)
			case all != without && !(all == with && l.folderNotSynced(err, "proof/ledger")):
				l.t.Errorf("after %v: %s", err, all)
			}
		}
}

func (l *lie) claim() (func(context.Context) error, func(error)) {
	dir := filepath.Join(l.dir, "proof")
	l.tell("claims", dir)
	m := claims.Manager{Dir: dir}
	return func(ctx context.Context) error { _, err := m.Claim(ctx, "1.1", "us"); return err },
		func(err error) {
			l.tell("claims", dir)
			honest := claims.Manager{Dir: filepath.Join(l.below, "proof")}
			_, is, lerr := honest.IsClaimed("1.1")
			if lerr != nil {
				l.t.Error(lerr)
			}
			stands := err == nil || errors.Is(err, claims.ErrFiles) || errors.Is(err, ledger.ErrUnfinished)
			if is != stands && !(is && l.folderNotSynced(err, "proof/ledger")) {
				l.t.Errorf("after %v: claimed is %v", err, is)
			}
			for problem, err := range honest.Verify(nil) {
				l.t.Errorf("%+v, %v", problem, err)
			}
			// And the same manager goes on.
			noErr(l.t, errOf(m.Claim(context.Background(), "1.2", "us")), "the next claim")
		}
}

func (l *lie) reap() (func(context.Context) error, func(error)) {
	dir := filepath.Join(l.dir, "proof")
	past := claims.Manager{Dir: dir, Now: func() time.Time { return time.Now().Add(-24 * time.Hour) }}
	check(l.t, errOf(past.Claim(context.Background(), "1.1", "us")))
	m := claims.Manager{Dir: dir}
	return func(ctx context.Context) error { _, err := m.Reap(ctx); return err },
		func(error) {
			l.tell("claims", dir)
			honest := claims.Manager{Dir: filepath.Join(l.below, "proof")}
			if c, is, err := honest.IsClaimed("1.1"); is || err != nil {
				l.t.Errorf("it is claimed still: %+v, %v", c, err)
			}
			for problem, err := range honest.Verify(nil) {
				l.t.Errorf("%+v, %v", problem, err)
			}
		}
}

func (l *lie) dispatch() (func(context.Context) error, func(error)) {
	return func(ctx context.Context) error {
			c, err := dispatch.Locks{Dir: l.dir}.Acquire(ctx, "id")
			that(l.t, !errors.As(err, new(*dispatch.ConflictError)), "%v is no conflict", err)
			if err != nil {
				return err
			}
			_, err = c.Release()
			return err
		}, func(error) {
			l.tell("dispatch", l.dir)
		}
}

// TestLies: whatever fails of a filesystem, and whichever one of them, what the library is
// asked for succeeds, or says at once what has failed. Nothing of others' is lost, and when
// it does not fail any more, the lock is anybody's.
func TestLies(t *testing.T) { // guards: H5
	t.Parallel()
	if !withOwnMounts(t) {
		return
	}
	dir := t.TempDir()
	fsys := throughLiar(t, dir, 0)
	oracleAt := filepath.Join(t.TempDir(), "oracle")
	o := must(openOracle(oracleAt))(t)
	dead := deadClaim(t, filepath.Join(fsys.dir, "dead"), oracleAt)
	other := testkit.Start(t, "rival", oracleAt)
	for name, op := range lieOps {
		for _, failing := range faultOps {
			for _, late := range []bool{false, true} {
				if late && !changing[failing] {
					continue
				}
				if !testkit.Sample(6) { // all of them take three minutes
					continue
				}
				title := name + ", " + failing
				if late {
					title += " done"
				}
				t.Run(title, func(t *testing.T) {
					for n, fired := 1, true; fired; n += step(failing, n) {
						if n > 1000 {
							t.Fatal("never passes")
						}
						folder := fmt.Sprintf("%s %d", strings.NewReplacer(",", "", " ", "-").Replace(title), n)
						l := &lie{t: t, dir: filepath.Join(fsys.dir, folder), below: filepath.Join(dir, folder),
							failure: failure{op: failing, nth: n, late: late}, dead: dead, rival: other, oracle: o}
						check(t, os.Mkdir(l.below, 0o755))
						do, then := op(l)
						fsys.arm(l.failure)
						var err error
						testkit.Promptly(t, title, func() { err = do(context.Background()) })
						fired = fsys.disarm()
						if err != nil && (!errors.Is(err, syscall.EIO) || errors.As(err, new(*lock.LockedError))) {
							t.Errorf("the error is %v", err)
						}
						that(t, err == nil || fired, "nothing has failed, and yet: %v", err)
						then(err)
						if t.Failed() {
							t.Fatalf("so with number %d: %v; there are %q", n, err, namesIn(t, l.below))
						}
					}
				})
			}
		}
	}
}

// step is how far it is to the next one that is to fail: of what changes nothing, and is done
// often, only some are tried, unless the tests may take long.
func step(failing string, n int) int {
	if changing[failing] || n < 3 || testkit.Complete() {
		return 1
	}
	return 1 + rand.N(n)
}

// deadClaim is the claim of a process that was killed while it held a lock.
func deadClaim(t *testing.T, path, oracle string) []byte {
	t.Helper()
	holder := testkit.Start(t, "rival", oracle)
	holder.Do("hold "+path, "hold")
	data := must(os.ReadFile(path))(t)
	holder.Kill()
	return data
}
