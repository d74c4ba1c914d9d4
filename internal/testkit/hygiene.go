package testkit

import (
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Run runs a package's tests, and then fails them if something is left in this process
// that nobody needs any more: a goroutine, an open file, a thread that waits in the kernel,
// or more memory than tests leave. What goes by itself is waited for.
//
// Root's tests have a folder for temporary files that other users may enter, as some of them
// become one.
func Run(m interface{ Run() int }) (code int) {
	if dir := publicTemp(); dir != "" {
		defer os.RemoveAll(dir)
		os.Setenv("TMPDIR", dir)
	}
	before := takeStock()
	if code = m.Run(); code != 0 || fuzzing() {
		return code
	}
	var left []string
	for deadline := time.Now().Add(Patience / 2); ; time.Sleep(5 * time.Millisecond) {
		if left = takeStock().beyond(before); len(left) == 0 {
			return 0
		}
		if time.Now().After(deadline) {
			break
		}
	}
	fmt.Fprintf(os.Stderr, "FAIL: the tests have left behind\n%s\n", strings.Join(left, "\n"))
	return 1
}

// publicTemp makes a folder for temporary files, if root's is for root alone, as with
// pam_tmpdir. Otherwise it returns "".
func publicTemp() string {
	if os.Geteuid() != 0 {
		return ""
	}
	for dir := os.TempDir(); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil || info.Mode().Perm()&0o001 == 0 || dir == os.TempDir() && info.Mode().Perm()&0o002 == 0 {
			break
		}
		if dir == filepath.Dir(dir) {
			return ""
		}
	}
	dir, err := os.MkdirTemp("/tmp", "holdfast-tests-")
	if err != nil || os.Chmod(dir, fs.ModeSticky|0o777) != nil {
		return "" // then some tests fail, and say that they are not permitted
	}
	return dir
}

// fuzzing reports whether this run ends when its time is over, wherever it is then.
func fuzzing() bool {
	f := flag.Lookup("test.fuzz")
	return f != nil && f.Value.String() != ""
}

// maxGrowth is how much more memory may be in use after a package's tests than before:
// what package testing keeps of some hundred tests, and tables that are made once.
const maxGrowth = 8 << 20

// stock is what a process has.
type stock struct {
	goroutines map[string]string // by number: its stack
	files      map[string]int    // by what they lead to: how many
	threads    map[string]string // by number: what it is doing in the kernel
	heap       uint64
}

func takeStock() stock {
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return stock{goroutines(), openFiles(), busyThreads(), memory.HeapAlloc}
}

// beyond says what there is now that was not there before.
func (s stock) beyond(before stock) (left []string) {
	for id, stack := range s.goroutines {
		if _, ok := before.goroutines[id]; !ok {
			left = append(left, stack)
		}
	}
	for _, file := range slices.Sorted(maps.Keys(s.files)) {
		if n := s.files[file] - before.files[file]; n > 0 {
			left = append(left, fmt.Sprintf("%d more open: %s", n, file))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(s.threads)) {
		if s.threads[id] != before.threads[id] {
			left = append(left, fmt.Sprintf("thread %s is in %s", id, s.threads[id]))
		}
	}
	if s.heap > before.heap+maxGrowth {
		left = append(left, fmt.Sprintf("%d KiB of memory; there were %d", s.heap>>10, before.heap>>10))
	}
	return left
}

var goroutineLine = regexp.MustCompile(`^goroutine (\d+) `)

// goroutines are all but the calling one, and the one that package signal starts with the
// first Notify.
func goroutines() map[string]string {
	text := make([]byte, 1<<20)
	for {
		n := runtime.Stack(text, true)
		if n < len(text) {
			text = text[:n]
			break
		}
		text = make([]byte, 2*len(text))
	}
	all := map[string]string{}
	for _, stack := range strings.Split(string(text), "\n\n")[1:] {
		if id := goroutineLine.FindStringSubmatch(stack); id != nil && !strings.Contains(stack, "os/signal.loop") {
			all[id[1]] = stack
		}
	}
	return all
}

// openFiles are those of this process, where there is /proc, but for what Go's runtime
// opens once it waits for any of them.
func openFiles() map[string]int {
	files := map[string]int{}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return files
	}
	for _, e := range entries {
		target, err := os.Readlink("/proc/self/fd/" + e.Name())
		switch {
		case err != nil: // it was that of the list itself
		case target == "anon_inode:[eventpoll]", target == "anon_inode:[eventfd]":
		case strings.HasPrefix(target, "pipe:"), strings.HasPrefix(target, "socket:"):
			kind, _, _ := strings.Cut(target, ":")
			files[kind]++
		default:
			files[target]++
		}
	}
	return files
}
