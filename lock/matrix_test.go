package lock_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/platform"
)

// hands are what somebody who has no part in it may do to the two files, once.
var hands = map[string]func(path string) error{
	"no hand":           func(string) error { return nil },
	"sibling removed":   func(path string) error { return os.Remove(path + ".flock") },
	"lock file removed": os.Remove,
	// As it may be by the protocol: by who has its lock, and finds no lock file.
	"sibling tidied away": func(path string) error {
		f, err := platform.Open(path+".flock", os.O_RDWR)
		if err != nil {
			return err
		}
		defer f.Close()
		if _, err := os.Lstat(path); err == nil || f.TryLock(platform.Exclusive) != nil {
			return nil
		}
		return os.Remove(path + ".flock")
	},
}

// flow is one way through the protocol, which a process is parked in.
type flow struct {
	name      string
	steps     []string
	acquire   string // of the member
	fallback  bool
	dead      bool // there is a dead holder's claim to be taken over
	releasing bool // the steps are those of the release
	tidy      bool // the sibling goes, too
}

var flows = []flow{
	{name: "exclusive", steps: lock.AcquireSteps, acquire: "try"},
	{name: "shared", steps: lock.AcquireSteps, acquire: "try-shared"},
	{name: "reclaiming", steps: lock.ReclaimSteps, acquire: "try", dead: true},
	{name: "reclaiming, shared", steps: lock.ReclaimSteps, acquire: "try-shared", dead: true},
	{name: "releasing", steps: lock.ReleaseSteps, acquire: "try", releasing: true},
	{name: "leaving", steps: lock.ReaderLeaveSteps, acquire: "try-shared", releasing: true},
	{name: "tidying", steps: slices.Concat(lock.ReleaseSteps, lock.TidySteps), acquire: "try", releasing: true, tidy: true},
	{name: "tidying, leaving", steps: slices.Concat(lock.ReaderLeaveSteps, lock.TidySteps), acquire: "try-shared", releasing: true, tidy: true},
	{name: "tidying, acquiring", steps: lock.AcquireSteps, acquire: "try", tidy: true},
	{name: "fallback", steps: lock.FallbackSteps, acquire: "try", fallback: true},
	{name: "fallback, reclaiming", steps: lock.FallbackReclaimSteps, acquire: "try", fallback: true, dead: true},
	{name: "fallback, releasing", steps: lock.FallbackReleaseSteps, acquire: "try", fallback: true, releasing: true},
}

// TestMatrix parks one process at each step of each way through the protocol. A hand may
// remove one of the files there; another process runs its whole course, and may go on to
// hold; then the one that was parked goes on, or is killed. Never have two the lock, nobody's
// file is taken away but by the hand, and in the end the next one gets it, without a hand's
// help, and nothing is left. Of the 1,800 ways one in four is tried each time.
func TestMatrix(t *testing.T) {
	for _, flow := range flows {
		for _, step := range flow.steps {
			for hand := range hands {
				for _, other := range []string{"try", "try-shared"} {
					for _, course := range []string{"other holds on", "other leaves", "killed"} {
						if !testkit.Sample(4) {
							continue
						}
						name := strings.Join([]string{flow.name, step, hand, other, course}, "/")
						t.Run(name, func(t *testing.T) { matrix(t, flow, step, hand, other, course) })
					}
				}
			}
		}
	}
}

func matrix(t *testing.T, flow flow, step, hand, other, course string) {
	if flow.fallback && (other == "try-shared" || strings.HasPrefix(hand, "sibling")) {
		return // it means nothing there
	}
	dir := t.TempDir()
	file := lock.File{Path: filepath.Join(dir, ".lock"), StaleAfter: -1}
	file.Tidy = flow.tidy
	if flow.fallback {
		file = file.WithoutKernelLock()
	}
	if flow.dead {
		dead := start(t, "member", file.Path)
		if flow.fallback {
			dead.Order("fallback")
		}
		dead.Do("try", "held")
		dead.Kill()
	}
	p := start(t, "member", file.Path)
	if flow.fallback {
		p.Order("fallback")
	}
	if flow.tidy {
		p.Order("tidy")
	}
	p.Order("park " + step)
	if flow.releasing {
		p.Do(flow.acquire, "held")
		p.Do("release", "parked")
	} else {
		p.Do(flow.acquire, "parked")
	}
	if err := hands[hand](file.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	robbed := hand == "lock file removed"

	try := file.TryAcquire
	if other == "try-shared" {
		try = sharing(file).TryAcquire
	}
	held, err := try(t.Context())
	locked := new(lock.LockedError)
	if err != nil && !errors.As(err, &locked) {
		t.Fatal("the other: ", err)
	}
	if held != nil && course == "other leaves" {
		letGo(t, held)
		held = nil
	}
	if course == "killed" {
		p.Kill()
	} else {
		p.Order("go")
		switch said := p.Answer(); {
		case flow.releasing:
			if said != "released" && !(robbed && said == "lost") {
				t.Errorf("the parked one: %s", said)
			}
		case said == "held":
			// In fallback mode the lock file is all there is, and who removes it takes it.
			if held != nil && (other == "try" || flow.acquire == "try") && !(flow.fallback && robbed) {
				t.Error("two have the lock")
			}
			if held != nil { // the readers' file is there as long as one of them is
				letGo(t, held)
				held = nil
			}
			if said := p.Say("release"); said != "released" && !(robbed && said == "lost") {
				t.Errorf("the parked one: %s", said)
			}
		case strings.HasPrefix(said, "locked: "):
			that(t, held != nil || robbed, "nobody has it, and yet it is %s", said)
		default:
			t.Errorf("the parked one: %s", said)
		}
	}
	if held != nil {
		equal(t, getClaim(t, file.Path).Nonce, held.Info().Nonce, "the other's claim")
		letGo(t, held)
	}
	takeOverBy(t, file)
	left := slices.DeleteFunc(strings.Fields(names(t, dir)), func(name string) bool { return name == ".lock.flock" && !flow.tidy })
	equal(t, len(left), 0, "left behind:", left)
}
