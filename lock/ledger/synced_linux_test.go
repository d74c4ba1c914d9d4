//go:build !portable

package ledger_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock/ledger"
)

func init() {
	roles["appender"] = func(dir string) error { return appendSynced(dir, 1) }
	roles["batch-appender"] = func(dir string) error { return appendSynced(dir, 2) }
}

func appendSynced(dir string, events int) error {
	_, err := ledger.Ledger{Dir: dir}.AppendBatch(context.Background(), numbered(0, events))
	return err
}

// TestAppend_SystemCalls compares what the kernel is asked for with what is promised: what
// was reported as appended outlives a loss of power. An event is on disk before its name is,
// and the name before the end; a batch's events before the decision.
func TestAppend_SystemCalls(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("needs strace, to see the system calls")
	}
	synced := func(name, contents string) []string { return []string{name + `>, "` + contents, "fsync(", name + ">"} }
	for role, calls := range map[string][][]string{
		"appender": {synced("/.event-solo.tmp", "1"), {"rename", `000001.json"`, "fsync(", "/ledger>"}},
		"batch-appender": {
			synced("-000001.tmp", "1"), synced("-000002.tmp", "2"), synced("/.event-solo.tmp", "{"), {"rename", `/.batch"`},
			{"rename", `000001.json"`, "rename", `000002.json"`, "fsync(", "/ledger>", "unlink", `/.batch"`},
		},
	} {
		t.Run(role, func(t *testing.T) {
			trace, writer := filepath.Join(t.TempDir(), "trace"), testkit.Command(t, role, t.TempDir())
			writer.Args = append([]string{strace, "-f", "-y", "-o", trace, "-e", "trace=write,fsync,rename,renameat,renameat2,unlink,unlinkat", writer.Path},
				writer.Args[1:]...)
			writer.Path, writer.Stderr = strace, nil
			if out, err := writer.CombinedOutput(); err != nil || len(out) > 0 {
				t.Skipf("needs to be allowed to trace: %v: %s", err, out)
			}
			log := must(os.ReadFile(trace))(t)
			rest := string(log)
			for _, some := range calls {
				for _, call := range some {
					_, after, found := strings.Cut(rest, call)
					if !found {
						t.Fatalf("%q is missing, or out of order, in\n%s", call, log)
					}
					rest = after
				}
			}
		})
	}
}
