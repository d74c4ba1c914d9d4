package lock_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/holdfast-go/holdfast/lock"
)

// A holder says at which step it is, and the next one learns of it, however the first one
// ended.
func ExampleFileHold_Predecessor() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	f := lock.File{Path: filepath.Join(dir, "site.lock"), Cmd: "agent"}
	for _, step := range []string{"fetch", "load"} {
		err := f.Do(context.Background(), func(_ context.Context, held *lock.FileHold) error {
			before, err := held.Predecessor()
			if err != nil {
				return err
			}
			if before != nil {
				fmt.Printf("%s %s after %q\n", before.Info.Cmd, before.How, before.Note)
			}
			return held.Note(step)
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	// Output: agent released after "fetch"
}
