package tests

import (
	"os/exec"
	"path/filepath"
	"sort"
	"testing"
	"time"
)

// TestTakeover: holdfast run is killed with SIGKILL, and another one, which was
// waiting, goes ahead. How long that took is logged, not judged.
func TestTakeover(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".lock")
	held := func() bool {
		code, _ := run(t, holdfast, "status", path)
		return code == 3
	}
	var took []time.Duration
	for range 20 {
		first := background(t, exec.Command(holdfast, "run", path, "--", "sleep", "1000"))
		eventually(t, "the first holds the lock", held)
		next := exec.Command(holdfast, "run", path, "--", "true")
		if err := next.Start(); err != nil {
			t.Fatal(err)
		}
		killed := time.Now()
		first.Process.Kill()
		if err := next.Wait(); err != nil {
			t.Fatalf("the next: %v", err)
		}
		took = append(took, time.Since(killed))
		first.Wait()
	}
	sort.Slice(took, func(i, j int) bool { return took[i] < took[j] })
	t.Logf("from the kill to the end of the next command (a start of holdfast and of true included): median %s, worst %s",
		took[len(took)/2], took[len(took)-1])
}
