package settings_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/settings"
)

// How long to wait for a lock is for the user to say: MYAPP_LOCK_TIMEOUT=30, in seconds.
func ExampleFromEnv() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	s, err := settings.FromEnv("MYAPP")
	if err != nil {
		log.Fatal(err) // names the variable
	}
	held, err := lock.File{Path: filepath.Join(dir, "deploy.lock")}.AcquireWithin(context.Background(), s.Timeout)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("have it; else waited for", s.Timeout)
	if err := held.Release(); err != nil {
		log.Fatal(err)
	}
	// Output: have it; else waited for 5s
}
