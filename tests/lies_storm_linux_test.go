package tests

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
)

// TestLies_Locks: however a filesystem answers flock(2), and though a few in a hundred of all its
// operations fail at random, nobody is ever in there with another, nobody is told of a loss
// that is none, nobody is stuck, and in the end the lock is had.
func TestLies_Locks(t *testing.T) { // guards: H5
	if !withOwnMounts(t) {
		return
	}
	for _, answers := range []string{"honest", "ENOSYS", "EOPNOTSUPP", "ENOLCK", "grants all", "late", "interruptible"} {
		for _, percent := range []int{0, 2} {
			t.Run(fmt.Sprintf("%s, %d%%", answers, percent), func(t *testing.T) {
				dir := t.TempDir()
				fsys := throughLiar(t, dir, 0)
				fsys.answerLocks(answers)
				path, oracle := filepath.Join(fsys.dir, ".lock"), filepath.Join(t.TempDir(), "oracle")
				crowd := newCrowd(t, 5, func(int) *exec.Cmd { return play(t, "scramble", path, oracle, "EIO") })
				fsys.process.Do(fmt.Sprintf("random,%d", percent), "done")
				kills := chaosKills(t) / 10
				for range kills {
					time.Sleep(rand.N(8 * time.Millisecond)) // any instruction
					crowd.killOne()
				}
				fsys.disarm()
				crowd.allGoOn()
				had, lost := crowd.end()
				that(t, lost == 0, "%d were told of a loss, and nobody took a lock file", lost)
				t.Logf("%d acquisitions, %d kills", had, kills)
				held, err := lock.File{Path: path, StaleAfter: -1}.AcquireWithin(t.Context(), testkit.Patience)
				check(t, err, "the lock afterwards")
				noErr(t, held.Release())
				for _, e := range namesIn(t, dir) {
					that(t, e == ".lock.flock" || strings.HasPrefix(e, ".lock.reclaim."), "left behind: %s", e)
				}
			})
		}
	}
}

// TestLies_TwoWays: one folder is seen as what it is, and through a filesystem that forwards
// locks, keeps them to itself, has none, or grants all. Holders on either side keep out those
// on the other, and are followed by them when they let go, and when they are killed.
func TestLies_TwoWays(t *testing.T) { // guards: T3
	if !withOwnMounts(t) {
		return
	}
	folders := map[string]func(*testing.T) string{
		"disk":  func(t *testing.T) string { return t.TempDir() },
		"tmpfs": func(t *testing.T) string { return testkit.Mount(t, "tmpfs", "size=1m") },
	}
	for on, folder := range folders {
		for _, answers := range []string{"honest", "ENOSYS", "grants all", "late"} {
			for _, remember := range []time.Duration{0, time.Second} {
				t.Run(fmt.Sprintf("%s, %s, %v", on, answers, remember), func(t *testing.T) {
					dir := folder(t)
					fsys := throughLiar(t, dir, remember)
					fsys.answerLocks(answers)
					oracle := filepath.Join(t.TempDir(), "oracle")
					ways := []string{filepath.Join(dir, ".lock"), filepath.Join(fsys.dir, ".lock")}
					for first, path := range ways {
						other := ways[1-first]
						a, b := testkit.Start(t, "rival", oracle), testkit.Start(t, "rival", oracle)
						a.Do("hold "+path, "hold")
						b.Do("try "+other, "locked")
						b.Order("hold " + other)
						a.Do("release "+path, "release")
						b.Expect("hold")
						a.Do("try "+path, "locked")
						b.Do("release "+other, "release")

						a.Do("hold "+path, "hold")
						b.Do("try "+other, "locked")
						a.Kill()
						if said := b.Say("lock " + other); !strings.HasPrefix(said, "lock ") {
							t.Errorf("after its death: %s", said)
						}
						equal(t, must((lock.File{Path: path}).Inspect(t.Context()))(t).State, evidence.Free, "in the end")
					}
				})
			}
		}
	}
}
