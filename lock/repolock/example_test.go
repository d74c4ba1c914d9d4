package repolock_test

import (
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/holdfast-go/holdfast/lock/repolock"
)

func ExampleRepoLock_Lock() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	locks := repolock.NewRepoLock(dir)

	unlock, err := locks.Lock("repo-7", "push")
	if err != nil {
		log.Fatal(err)
	}

	_, err = locks.Lock("repo-7", "fetch")
	var locked *repolock.ErrLocked
	if errors.As(err, &locked) && locked.Info != nil {
		fmt.Println(locked.RepoID, "is locked for a", locked.Info.Cmd)
	}

	if err := unlock(); err != nil {
		log.Fatal(err)
	}
	// Output: repo-7 is locked for a push
}
