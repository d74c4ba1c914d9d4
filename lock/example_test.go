package lock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lock"
)

func ExampleFile_Do() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	f := lock.File{Path: filepath.Join(dir, "deploy.lock"), Cmd: "deploy"}
	err = f.Do(context.Background(), func(ctx context.Context, _ *lock.FileHold) error {
		fmt.Println("deploying") // ctx ends if the lock is lost
		return nil
	})
	if err != nil {
		log.Fatal(err) // the work's error, or what became of the lock
	}
	// Output: deploying
}

func ExampleFile_Acquire() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	f := lock.File{Path: filepath.Join(dir, "deploy.lock"), Cmd: "deploy"}
	held, err := f.Acquire(context.Background()) // waits; TryAcquire does not
	if err != nil {
		log.Fatal(err)
	}
	defer held.Release() // if the work panics; a second Release does nothing

	fmt.Println("deploying")

	if err := held.Release(); err != nil { // lock.ErrLost: it was not ours to the end
		log.Fatal(err)
	}
	// Output: deploying
}

// A wait with a limit, which says who is in the way.
func ExampleFile_AcquireWithin() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "data.lock")

	backup, err := lock.File{Path: path, Cmd: "backup"}.Acquire(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	waiting := make(chan struct{})
	go func() {
		<-waiting
		if err := backup.Release(); err != nil {
			log.Fatal(err)
		}
	}()

	f := lock.File{
		Path: path,
		Cmd:  "deploy",
		Observe: func(e lock.Event) {
			if e.Kind == lock.EventWaiting && e.Duration == 0 { // told again if the wait lasts
				fmt.Println("waiting for the", e.Info.Cmd)
				close(waiting)
			}
		},
	}
	held, err := f.AcquireWithin(context.Background(), time.Minute)
	if errors.Is(err, lock.ErrTimeout) {
		log.Fatal("somebody has it still: ", err)
	} else if err != nil {
		log.Fatal(err)
	}
	fmt.Println("deploying")
	if err := held.Release(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// waiting for the backup
	// deploying
}

// Names are added to a file, each once, whoever else does so at the same time.
func ExampleUpdate() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "names")

	for _, name := range []string{"ana", "ben", "ana"} {
		err := lock.Update(context.Background(), path, func(old []byte) ([]byte, error) {
			if slices.Contains(strings.Fields(string(old)), name) {
				return nil, lock.ErrUnchanged
			}
			return fmt.Appendln(old, name), nil
		})
		if err != nil {
			log.Fatal(err)
		}
	}

	names, err := os.ReadFile(path) // no lock is needed to read
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(string(names))
	// Output:
	// ana
	// ben
}

func ExampleAcquireAll() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	// Whoever names the same locks in another order does not deadlock with us.
	set, err := lock.AcquireAll(context.Background(),
		lock.File{Path: filepath.Join(dir, "savings.lock"), Cmd: "transfer"},
		lock.File{Path: filepath.Join(dir, "current.lock"), Cmd: "transfer"},
	)
	if err != nil {
		log.Fatal(err) // none of them is held
	}
	fmt.Println("both are ours")
	if err := set.Release(); err != nil {
		log.Fatal(err)
	}
	// Output: both are ours
}

// A folder of locks, one for each agent, and who has them.
func ExampleDir() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	locks := lock.Dir{Path: filepath.Join(dir, "locks")}
	key := lock.Key{Space: "agent", Name: "42"}
	err = lock.Do(context.Background(), locks, key, func(ctx context.Context, _ lock.Hold) error {
		for entry, err := range locks.List(ctx) {
			if err != nil {
				return err
			}
			fmt.Println(entry.Key, "is", entry.State)
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: agent/42 is held
}

func ExampleFile_Inspect() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	f := lock.File{Path: filepath.Join(dir, "deploy.lock"), Cmd: "deploy"}

	held, err := f.Acquire(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	status, err := f.Inspect(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(status.State)
	if status.Info != nil { // they are known
		fmt.Println("by", status.Info.Cmd)
	}

	if err := held.Release(); err != nil {
		log.Fatal(err)
	}
	if status, err = f.Inspect(context.Background()); err != nil {
		log.Fatal(err)
	}
	fmt.Println(status.State)
	// Output:
	// held
	// by deploy
	// free
}

// What becomes of a lock, in the log: a lock that was lost, or taken over from a dead
// holder, as a warning, the rest for debugging.
func ExampleLogTo() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			switch a.Key {
			case slog.TimeKey, "path", "duration":
				return slog.Attr{} // other ones in each run of this example
			}
			return a
		},
	}))
	f := lock.File{Path: filepath.Join(dir, "deploy.lock"), Cmd: "deploy", Observe: lock.LogTo(logger)}
	if err := f.Do(context.Background(), func(context.Context, *lock.FileHold) error { return nil }); err != nil {
		log.Fatal(err)
	}
	// Output:
	// level=DEBUG msg="lock acquired" cmd=deploy
	// level=DEBUG msg="lock released" cmd=deploy
}

func ExampleFileHold_Attach() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	held, err := lock.File{Path: filepath.Join(dir, "repo.lock"), Cmd: "agent"}.Acquire(context.Background())
	if err != nil {
		log.Fatal(err)
	}

	build := exec.Command("go", "version")
	// If this process is killed, the next agent waits until build has ended, too.
	if err := held.Attach(build); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		log.Fatal(err)
	}
	if err := build.Run(); err != nil {
		log.Fatal(err)
	}

	fmt.Println(held.Release())
	// Output: <nil>
}
