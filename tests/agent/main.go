// Command agent works on a repository in steps, each of them a child, and may be killed at
// any moment. Whoever runs it next waits for the children of the one who died, learns who
// that was and at what, and goes on from there.
//
//	agent REPOSITORY COMMAND...
//
// A step may be done twice, if its agent died before it was written down: it must bear that.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/holdfast-go/holdfast/lock"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) < 3 {
		log.Fatal("usage: agent REPOSITORY COMMAND...")
	}
	if err := work(os.Args[1], os.Args[2:]); err != nil {
		log.Fatal("agent: ", err)
	}
}

func work(repository string, steps []string) (err error) {
	held, err := lock.File{Path: filepath.Join(repository, ".lock"), Cmd: "agent"}.Acquire(context.Background())
	if err != nil {
		return err
	}
	defer func() { // what the steps have left behind has the lock until it has ended
		if _, rerr := held.LeaveToChildren(); err == nil {
			err = rerr
		}
	}()
	before, err := held.Predecessor()
	if err != nil {
		return err
	}
	// How far the work is belongs in a file of the work. The note tells people, and the
	// next agent, at what the last one was.
	progress := filepath.Join(repository, ".progress")
	done := 0
	if text, err := os.ReadFile(progress); err == nil {
		if done, err = strconv.Atoi(string(text)); err != nil {
			return err
		}
	}
	if before != nil && before.How != lock.EndReleased {
		fmt.Printf("pid %d %s (%s) at %q; going on at step %d\n", before.Info.PID, before.How, before.Evidence, before.Note, done+1)
	}
	for ; done < len(steps); done++ {
		if err := held.Note(fmt.Sprintf("step %d of %d: %s", done+1, len(steps), steps[done])); err != nil {
			return err
		}
		step := exec.Command("sh", "-c", steps[done])
		step.Dir, step.Stdout, step.Stderr = repository, os.Stdout, os.Stderr
		if err := held.Attach(step); err != nil { // so that it holds, too, if we are killed
			return err
		}
		if err := step.Run(); err != nil {
			return fmt.Errorf("step %d: %w", done+1, err)
		}
		if err := write(progress, strconv.Itoa(done+1)); err != nil {
			return err
		}
	}
	return os.Remove(progress)
}

// write replaces a file at once: whoever is killed here leaves the old one or the new one.
func write(path, text string) error {
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
