package lock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/holdfast-go/holdfast/platform"
)

// TestMarker_OfTheLiving: whoever reclaims, or may be reclaiming, is left to it.
func TestMarker_OfTheLiving(t *testing.T) { // guards: A4, S9
	alive := ownClaim(t)
	alive.KernelLock = ""
	for name, put := range map[string]func(t *testing.T, marker string){
		"this process":      func(t *testing.T, marker string) { putClaim(t, marker, alive) },
		"a pid that exists": func(t *testing.T, marker string) { putClaim(t, marker, evidence.Claim{PID: 1, CreatedAt: time.Now()}) },
		"another host": func(t *testing.T, marker string) {
			putClaim(t, marker, evidence.Claim{PID: 1, Hostname: "elsewhere", CreatedAt: time.Now()})
		},
		"unreadable":          func(t *testing.T, marker string) { putFile(t, marker, []byte("{}"), time.Time{}) },
		"somebody's old data": func(t *testing.T, marker string) { putFile(t, marker, []byte("data"), time.Now().Add(-1000*time.Hour)) },
	} {
		for _, mode := range []string{"fallback", "kernel lock"} {
			t.Run(name+", "+mode, func(t *testing.T) {
				file := fallbackFile(t)
				if mode == "kernel lock" {
					file = withKernelLock(file)
				}
				putClaim(t, file.Path, formerClaim(t))
				put(t, file.Path+".reclaim")
				before := treeState(t, filepath.Dir(file.Path), "lock.flock")
				if l := notHad(t, file); l.Path != file.Path || l.Evidence != evidence.BeingReclaimed {
					t.Errorf("locked is %q, %q; want the lock, and the marker as the reason", l.Path, l.Evidence)
				}
				sameTree(t, before, treeState(t, filepath.Dir(file.Path), "lock.flock"))
				// Once the marker has gone, so has the obstacle.
				check(t, os.Remove(file.Path+".reclaim"))
				letGo(t, tryHold(t, file))
			})
		}
	}
}

// TestMarker_OfTheDead: a marker left by a crash blocks nobody.
func TestMarker_OfTheDead(t *testing.T) { // guards: S9
	dead := formerClaim(t)
	marker := dead
	marker.Nonce = "DEADMARKER"
	aged := evidence.Claim{PID: os.Getpid(), CreatedAt: time.Now().Add(-3 * time.Hour)} // before this process began
	putDead := func(t *testing.T, path string) { putClaim(t, path, marker) }
	for _, test := range []struct {
		name string
		mode string
		put  func(t *testing.T, path string)
	}{
		{"whole", "fallback", putDead},
		{"whole", "kernel lock", putDead},
		{"aged", "fallback", func(t *testing.T, path string) { putClaim(t, path, aged) }},
		{"aged", "kernel lock", func(t *testing.T, path string) { putClaim(t, path, aged) }},
		{"empty, aged", "fallback", func(t *testing.T, path string) { putFile(t, path, nil, aged.CreatedAt) }},
		{"incomplete", "kernel lock", func(t *testing.T, path string) {
			putFile(t, path, []byte(`{"pid":`), time.Time{})
			mark(t, path)
		}},
	} {
		if test.name == "incomplete" && !platform.KeepsMarks {
			continue
		}
		t.Run(test.name+", "+test.mode, func(t *testing.T) {
			file := fallbackFile(t)
			if test.mode == "kernel lock" {
				file = withKernelLock(file)
			}
			putClaim(t, file.Path, dead)
			test.put(t, file.Path+".reclaim")
			held := tryHold(t, file)
			equal(t, getClaim(t, file.Path).Nonce, held.Info().Nonce, "on disk")
			// A marker left between taking and releasing blocks neither.
			test.put(t, file.Path+".reclaim")
			letGo(t, held)
			letGo(t, tryHold(t, file))
			isAbsent(t, file.Path)
			if test.mode == "fallback" {
				equal(t, names(t, filepath.Dir(file.Path)), "", "left behind")
			}
		})
	}
}

// TestMarker_RaceForTheDead: of all who find a dead holder's claim, beside a dead
// reclaimer's marker, exactly one gets the lock.
func TestMarker_RaceForTheDead(t *testing.T) { // guards: S9
	dead := formerClaim(t)
	for _, racers := range []int{2, 8} {
		t.Run(fmt.Sprint(racers), func(t *testing.T) {
			file := fallbackFile(t)
			dir := filepath.Dir(file.Path)
			for round := range 300 {
				claim, marker := dead, dead
				claim.Nonce, marker.Nonce = fmt.Sprint("CLAIM", round), fmt.Sprint("MARKER", round)
				putClaim(t, file.Path, claim)
				putClaim(t, file.Path+".reclaim", marker)

				var ready, done sync.WaitGroup
				gun := make(chan struct{})
				results := make([]*lock.FileHold, racers)
				for i := range racers {
					ready.Add(1)
					done.Go(func() {
						ready.Done()
						<-gun
						held, err := file.TryAcquire(context.Background())
						that(t, err == nil || errors.As(err, new(*lock.LockedError)), "round %d: %v", round, err)
						results[i] = held
					})
				}
				ready.Wait()
				close(gun)
				done.Wait()

				var winners []*lock.FileHold
				for _, held := range results {
					if held != nil {
						winners = append(winners, held)
					}
				}
				if len(winners) != 1 {
					t.Fatalf("round %d: %d holders", round, len(winners))
				}
				if got := getClaim(t, file.Path); got.Nonce != winners[0].Info().Nonce {
					t.Fatalf("round %d: on disk is %+v", round, got)
				}
				if got := names(t, dir); got != "lock" {
					t.Fatalf("round %d: files are %q", round, got)
				}
				letGo(t, winners[0])
			}
		})
	}
}

// TestMarker_SlowJudge: while one is still judging a dead marker another has
// replaced it by its own, and is at work under it.
func TestMarker_SlowJudge(t *testing.T) { // guards: A4, B3
	const holder, reclaimer = 999999, 999998
	file := fallbackFile(t)
	marker := file.Path + ".reclaim"
	old := time.Now().Add(-time.Hour)
	putClaim(t, file.Path, evidence.Claim{PID: holder, CreatedAt: old})
	putClaim(t, marker, evidence.Claim{PID: reclaimer, CreatedAt: old})

	working, goOn := make(chan struct{}), make(chan struct{})
	results := make(chan *lock.FileHold, 1)
	quick := func() {
		defer close(results)
		held, err := file.WithPIDAlive(func(int) bool { return false }).Park(func(step string) {
			if step == lock.StepReread {
				close(working)
				<-goOn
			}
		}).TryAcquire(context.Background())
		if err != nil {
			t.Error(err)
			return
		}
		results <- held
	}
	var before map[string]fileState
	slow := file.WithPIDAlive(func(pid int) bool {
		if pid == reclaimer && before == nil {
			go quick()
			promptly(t, "reclaiming", func() { <-working })
			before = treeState(t, filepath.Dir(file.Path))
		}
		return false
	})
	l := notHad(t, slow)
	if before == nil {
		t.Fatal("the marker was not judged")
	}
	that(t, l.Path == file.Path && l.Evidence == evidence.BeingReclaimed, "locked is %q, %q", l.Path, l.Evidence)
	sameTree(t, before, treeState(t, filepath.Dir(file.Path)))
	close(goOn)
	held := <-results
	if held == nil {
		t.FailNow()
	}
	equal(t, getClaim(t, file.Path).Nonce, held.Info().Nonce, "on disk")
	letGo(t, held)
}

// TestMarker_SlowReclaimer: between the judgement of a dead claim and the marker
// another has reclaimed the lock.
func TestMarker_SlowReclaimer(t *testing.T) { // guards: B3
	file := fallbackFile(t)
	putClaim(t, file.Path, evidence.Claim{PID: 999999, CreatedAt: time.Now()})
	dead := func(int) bool { return false }
	var quick *lock.FileHold
	slow := file.WithPIDAlive(func(int) bool {
		if quick == nil {
			quick = tryHold(t, file.WithPIDAlive(dead))
		}
		return false
	})
	if l := notHad(t, slow); l.Info == nil || l.Info.Nonce != quick.Info().Nonce {
		t.Errorf("holder is %+v", l.Info)
	}
	equal(t, getClaim(t, file.Path).Nonce, quick.Info().Nonce, "on disk")
	letGo(t, quick)
	equal(t, names(t, filepath.Dir(file.Path)), "", "left behind")
}
