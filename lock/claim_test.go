package lock_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/platform"
)

// Helpers of these tests, used by the other files too.

func asLocked(t *testing.T, err error) *lock.ErrLocked {
	t.Helper()
	var locked *lock.ErrLocked
	if !errors.As(err, &locked) {
		t.Fatalf("error is %T (%v), want *ErrLocked", err, err)
	}
	return locked
}

func tryHold(t *testing.T, f lock.File) *lock.FileHold {
	t.Helper()
	held, err := f.TryAcquire(context.Background())
	check(t, err)
	return held
}

func letGo(t *testing.T, held *lock.FileHold) {
	t.Helper()
	check(t, held.Release())
}

func putFile(t *testing.T, path string, data []byte, modified time.Time) {
	t.Helper()
	check(t, os.MkdirAll(filepath.Dir(path), 0o755))
	check(t, os.WriteFile(path, data, 0o600))
	if !modified.IsZero() {
		check(t, os.Chtimes(path, modified, modified))
	}
}

// putClaim writes a claim: one of ours if it has a nonce, and otherwise one of another
// program's.
func putClaim(t *testing.T, path string, claim lock.LockInfo) []byte {
	t.Helper()
	data, err := json.Marshal(claim)
	if claim.Nonce != "" {
		data, err = lock.EncodeClaim(&claim)
	}
	check(t, err)
	putFile(t, path, data, time.Time{})
	return data
}

func getFile(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	check(t, err)
	return data
}

func getClaim(t *testing.T, path string) lock.LockInfo {
	t.Helper()
	var claim lock.LockInfo
	check(t, json.Unmarshal(getFile(t, path), &claim))
	return claim
}

func isAbsent(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("%s is there (%v)", path, err)
	}
}

// ownClaim is a whole claim of this process.
func ownClaim(t *testing.T) lock.LockInfo {
	t.Helper()
	held := tryHold(t, lock.File{Path: filepath.Join(t.TempDir(), "lock")})
	defer letGo(t, held)
	return held.Info()
}

// formerClaim is a claim that is proven dead by the process alone: this process's
// pid, in an earlier life.
func formerClaim(t *testing.T) lock.LockInfo {
	t.Helper()
	claim := ownClaim(t)
	if claim.Start == 0 {
		t.Skip("needs a system that tells when a process started")
	}
	claim.Start++
	claim.PIDFD++
	claim.KernelLock = ""
	claim.Nonce = "DEAD"
	return claim
}

// kindOf is the name of the filesystem that a file lies on.
func kindOf(t *testing.T, path string) string {
	t.Helper()
	fsys, err := platform.FilesystemOf(path)
	check(t, err)
	return fsys.Kind
}

// fileState is all of a file that a test compares.
type fileState struct {
	mode     fs.FileMode
	size     int64
	modified time.Time
	info     fs.FileInfo
	content  string // of a small regular file, or a link's target
}

// treeState describes everything below dir except the named files in it.
func treeState(t *testing.T, dir string, except ...string) map[string]fileState {
	t.Helper()
	tree := map[string]fileState{}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		for _, e := range except {
			if name == e {
				return nil
			}
		}
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		s := fileState{mode: info.Mode(), info: info}
		if !info.IsDir() || path != dir {
			s.size, s.modified = info.Size(), info.ModTime()
		}
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			s.content, err = os.Readlink(path)
		case info.Mode().IsRegular() && info.Size() < 1<<20:
			var data []byte
			if data, err = os.ReadFile(path); errors.Is(err, fs.ErrPermission) {
				err = nil // its time and size must do
			}
			s.content = string(data)
		}
		tree[name] = s
		return err
	})
	check(t, err)
	return tree
}

// sameTree fails unless two states of one tree are equal, down to the files'
// identity and times.
func sameTree(t *testing.T, before, after map[string]fileState) {
	t.Helper()
	for name, b := range before {
		a, ok := after[name]
		switch {
		case !ok:
			t.Errorf("%s was removed", name)
		case a.mode != b.mode || a.size != b.size || a.content != b.content || !a.modified.Equal(b.modified):
			t.Errorf("%s was changed: from %v %d %s to %v %d %s", name, b.mode, b.size, b.modified, a.mode, a.size, a.modified)
		case !os.SameFile(a.info, b.info):
			t.Errorf("%s was replaced", name)
		}
	}
	for name := range after {
		if _, ok := before[name]; !ok {
			t.Errorf("%s was left behind", name)
		}
	}
}

// notClaims are contents that must not be taken for a claim.
var notClaims = map[string]string{
	"empty":               "",
	"garbage":             "\x7fELF\x02\x01\x01 not json",
	"NUL bytes":           strings.Repeat("\x00", 512),
	"null":                "null",
	"empty object":        "{}",
	"array":               `[{"pid":1,"created_at":"2026-01-02T03:04:05Z"}]`,
	"number":              "4242",
	"string":              `"4242"`,
	"bare pid":            "4242\n",
	"half a claim":        `{"pid":4242,"created_at":"2026-01-`,
	"trailing junk":       `{"pid":4242,"created_at":"2026-01-02T03:04:05Z"} x`,
	"two claims":          `{"pid":4242,"created_at":"2026-01-02T03:04:05Z"}{"pid":4242,"created_at":"2026-01-02T03:04:05Z"}`,
	"trailing NUL":        `{"pid":4242,"created_at":"2026-01-02T03:04:05Z"}` + "\x00",
	"byte order mark":     "\xef\xbb\xbf" + `{"pid":4242,"created_at":"2026-01-02T03:04:05Z"}`,
	"UTF-16":              "{\x00\"\x00p\x00i\x00d\x00\"\x00:\x004\x00}\x00",
	"deep":                `{"pid":4242,"created_at":"2026-01-02T03:04:05Z","x":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + "}",
	"deep, never closed":  strings.Repeat(`{"a":`, 10_000),
	"no pid":              `{"created_at":"2026-01-02T03:04:05Z"}`,
	"pid null":            `{"pid":null,"created_at":"2026-01-02T03:04:05Z"}`,
	"pid 0":               `{"pid":0,"created_at":"2026-01-02T03:04:05Z"}`,
	"pid -1":              `{"pid":-1,"created_at":"2026-01-02T03:04:05Z"}`,
	"pid 1.5":             `{"pid":1.5,"created_at":"2026-01-02T03:04:05Z"}`,
	"pid 99999999999":     `{"pid":99999999999,"created_at":"2026-01-02T03:04:05Z"}`,
	"pid beyond 64 bits":  `{"pid":99999999999999999999999999,"created_at":"2026-01-02T03:04:05Z"}`,
	"pid of 10,000 nines": `{"pid":` + strings.Repeat("9", 10_000) + `,"created_at":"2026-01-02T03:04:05Z"}`,
	"pid a string":        `{"pid":"12","created_at":"2026-01-02T03:04:05Z"}`,
	"pid NaN":             `{"pid":NaN,"created_at":"2026-01-02T03:04:05Z"}`,
	"no created_at":       `{"pid":4242}`,
	"created_at null":     `{"pid":4242,"created_at":null}`,
	"created_at empty":    `{"pid":4242,"created_at":""}`,
	"created_at garbage":  `{"pid":4242,"created_at":"yesterday"}`,
	"created_at number":   `{"pid":4242,"created_at":1767323045}`,
	"created_at zero":     `{"pid":4242,"created_at":"0001-01-01T00:00:00Z"}`,
	"created_at 10000":    `{"pid":4242,"created_at":"10000-01-01T00:00:00Z"}`,
	"created_at 30 Feb":   `{"pid":4242,"created_at":"2026-02-30T00:00:00Z"}`,
}

var goldenTime = time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.UTC)

func goldenClaim() lock.LockInfo {
	return lock.LockInfo{
		PID: 4242, CreatedAt: goldenTime, Cmd: "push",
		Nonce: "ABCDEFGHIJKLMNOPQRSTUVWXYZ", Hostname: "builder", User: "ana", Dir: "/srv/app",
		BootID:       "6f0c1d1e-5b0a-4e0e-9a54-1f6f3c2f7a10",
		PIDNamespace: 4026531836, TimeNamespace: 4026531834, Start: 1234567, PIDFD: 8901,
		KernelLock: "ext4:64768:131090", LockFD: 8, QueueFD: 7,
	}
}

func golden(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	check(t, err)
	return data
}

func sameClaim(a, b lock.LockInfo) bool {
	if !a.CreatedAt.Equal(b.CreatedAt) || !a.RenewedAt.Equal(b.RenewedAt) {
		return false
	}
	a.CreatedAt, a.RenewedAt = b.CreatedAt, b.RenewedAt
	return a == b
}

// TestClaim_Golden pins the format: other programs, and older versions of this
// one, read and write these very bytes.
func TestClaim_Golden(t *testing.T) {
	fallback := goldenClaim()
	fallback.User, fallback.Dir, fallback.LockFD, fallback.QueueFD = "", "", 0, 0 // as claims had none, before
	fallback.Cmd, fallback.KernelLock, fallback.RenewedAt, fallback.StaleAfter = "", "", goldenTime.Truncate(time.Second), 2*time.Hour
	session := goldenClaim()
	session.OwnerPID, session.LockFD, session.QueueFD = 987, 0, 0
	bare := lock.LockInfo{PID: 4242, CreatedAt: goldenTime, Cmd: "push"}
	for _, test := range []struct {
		file   string
		want   lock.LockInfo
		ending string // what we write after the object; none: we don't write this file
		ours   bool
	}{
		{"claim_holdfast.json", goldenClaim(), "\n", true},
		{"claim_holdfast_fallback.json", fallback, "\n", true},
		{"claim_holdfast_session.json", session, "\n", true},
		{"claim_agency.json", bare, "", false},
		{"claim_holdfast_0.json", lock.LockInfo{PID: 4242, CreatedAt: goldenTime, Cmd: "push", Hostname: "builder", Nonce: "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}, "", false},
		{"claim_other_program.json", bare, "", false},
	} {
		t.Run(test.file, func(t *testing.T) {
			data := golden(t, test.file)
			got, err := lock.DecodeClaim(data)
			check(t, err)
			if !sameClaim(*got, test.want) {
				t.Errorf("decoded\n%+v, want\n%+v", *got, test.want)
			}
			if !test.ours {
				return
			}
			encoded, err := lock.EncodeClaim(&test.want)
			check(t, err)
			if want := strings.TrimSuffix(string(data), test.ending) + "\n"; string(encoded) != want {
				t.Errorf("encoded\n%s, want\n%s", encoded, want)
			}
		})
	}
}

func TestClaim_JSONKeys(t *testing.T) {
	zero, err := json.Marshal(lock.LockInfo{})
	check(t, err)
	if want := `{"pid":0,"created_at":"0001-01-01T00:00:00Z"}`; string(zero) != want {
		t.Errorf("zero value is %s, want %s", zero, want)
	}
	full := goldenClaim()
	full.OwnerPID, full.Mode, full.RenewedAt, full.StaleAfter = 7, "shared", goldenTime, time.Hour
	data, err := json.Marshal(full)
	check(t, err)
	var got map[string]any
	check(t, json.Unmarshal(data, &got))
	want := []string{"pid", "created_at", "cmd", "owner_pid", "nonce", "hostname", "user", "dir", "boot_id", "pid_ns", "time_ns", "start", "pidfd",
		"kernel_lock", "lock_fd", "queue_fd", "mode", "renewed_at", "stale_after"}
	for _, key := range want {
		if _, ok := got[key]; !ok {
			t.Errorf("no key %q in %s", key, data)
		}
	}
	if n := reflect.TypeFor[lock.LockInfo]().NumField(); len(got) != len(want) || n != len(want) {
		t.Errorf("%d keys, %d fields, want %d of each: add the new ones to this test", len(got), n, len(want))
	}
}

func TestClaim_NotAClaim(t *testing.T) {
	for name, content := range notClaims {
		if claim, err := lock.DecodeClaim([]byte(content)); err == nil {
			t.Errorf("%s was read as %+v", name, claim)
		}
	}
}

// TestClaim_OfAnotherProgram: of a claim that does not show to be ours only four fields
// mean something; nothing else in it, of whatever type, makes it unreadable, or one of ours.
func TestClaim_OfAnotherProgram(t *testing.T) {
	want := lock.LockInfo{PID: 4242, CreatedAt: goldenTime.Truncate(time.Second)}
	for _, further := range []string{
		"", `"pidfd":77`, `"start":"x"`, `"start":-1`, `"mode":1`, `"mode":"shared"`, `"cmd":7`, `"hostname":[]`, `"nonce":{}`,
		`"boot_id":"here"`, `"pid_ns":1`, `"renewed_at":"junk"`, `"renewed_at":"2036-01-02T03:04:05Z"`, `"kernel_lock":"ext4:1:2"`,
		`"stale_after":1`, `"owner_pid":9`, `"owner_pid":"x"`, `"released":true`, `"released":1`, `"holdfast":0,"released":true`, `"holdfast":1`,
		`"holdfast":"1","released":true`, `"holdfast":1,"released":"x"`, `"holdfast":1,"released":true,"pidfd":-1`, `"PID":7`,
	} {
		for _, pid := range []string{"4242", "4242.0", "4.242e3"} {
			data := `{"pid":` + pid + `,"created_at":"2026-01-02T03:04:05Z"`
			if further != "" {
				data += "," + further
			}
			got, err := lock.DecodeClaim([]byte(data + "}"))
			if err != nil {
				t.Errorf("%s}: %v", data, err)
			} else if !sameClaim(*got, want) {
				t.Errorf("%s} was read as %+v", data, *got)
			}
		}
	}
}

func FuzzDecodeClaim(f *testing.F) {
	for _, content := range notClaims {
		f.Add([]byte(content))
	}
	for _, name := range []string{"claim_holdfast.json", "claim_holdfast_fallback.json", "claim_holdfast_0.json", "claim_agency.json", "claim_other_program.json"} {
		f.Add(golden(f, name))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		claim, err := lock.DecodeClaim(data)
		if err != nil {
			if claim != nil {
				t.Fatalf("a claim with an error: %+v, %v", claim, err)
			}
			return
		}
		if claim.PID <= 0 || claim.PID > math.MaxInt32 || claim.CreatedAt.IsZero() {
			t.Fatalf("accepted %+v", claim)
		}
		again, err := lock.EncodeClaim(claim)
		if err != nil {
			return // longer than it was, or a zone that can't be written
		}
		second, err := lock.DecodeClaim(again)
		if err != nil {
			t.Fatalf("can't read back %s: %v", again, err)
		}
		if !sameClaim(*claim, *second) {
			t.Fatalf("round trip of\n%+v gave\n%+v", claim, second)
		}
	})
}

func TestClaim_OnDiskAfterAcquire(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	before := time.Now()
	held := tryHold(t, lock.File{Path: path, Cmd: `push "quoted" <b>`})
	defer held.Release()
	after := time.Now()

	info, err := os.Lstat(path)
	check(t, err)
	if runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("lock file has mode %v, want 0600", info.Mode())
	}
	if sibling, err := os.Lstat(path + ".flock"); err != nil {
		t.Error(err)
	} else if runtime.GOOS != "windows" && sibling.Mode().Perm() != 0o600 {
		t.Errorf("sibling has mode %v, want 0600", sibling.Mode())
	} else if platform.KeepsMarks && runtime.GOOS != "windows" && (info.Mode()&fs.ModeSticky == 0 || sibling.Mode()&fs.ModeSticky == 0) {
		t.Errorf("marks are missing: %v, %v", info.Mode(), sibling.Mode())
	}
	data := getFile(t, path)
	claim, err := lock.DecodeClaim(data)
	if err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	if !sameClaim(*claim, held.Info()) {
		t.Errorf("on disk\n%+v, Info says\n%+v", *claim, held.Info())
	}
	if encoded, _ := lock.EncodeClaim(claim); !bytes.Equal(encoded, data) {
		t.Errorf("on disk %q, want %q", data, encoded)
	}
	if claim.PID != os.Getpid() || claim.Cmd != `push "quoted" <b>` || len(claim.Nonce) < 20 {
		t.Errorf("claim is %+v", claim)
	}
	if claim.CreatedAt.Before(before.Round(0)) || claim.CreatedAt.After(after.Round(0)) {
		t.Errorf("created_at is %s, not from %s to %s", claim.CreatedAt, before, after)
	}
	locked := path
	if !platform.OwnLocks {
		locked += ".flock"
	}
	id, err := platform.IdentifyFile(locked)
	check(t, err)
	if want := fmt.Sprintf("%s:%d:%d", kindOf(t, path), id.Dev, id.Ino); claim.KernelLock != want {
		t.Errorf("kernel_lock is %q, want %q", claim.KernelLock, want)
	}
	isAbsent(t, path+".reclaim")
}

func TestClaim_NonceIsUnique(t *testing.T) {
	file := lock.File{Path: filepath.Join(t.TempDir(), "lock")}
	seen := map[string]bool{}
	for range 50 {
		held := tryHold(t, file)
		seen[held.Info().Nonce] = true
		letGo(t, held)
	}
	if len(seen) != 50 {
		t.Errorf("50 holders had %d nonces", len(seen))
	}
}

// TestClaim_CmdTooLong: a claim that readers would take for something else is
// refused before anything is written.
func TestClaim_CmdTooLong(t *testing.T) {
	dir := t.TempDir()
	file := lock.File{Path: filepath.Join(dir, "lock"), Cmd: strings.Repeat("x", lock.MaxCmd+1)}
	if _, err := file.TryAcquire(context.Background()); !errors.Is(err, lock.ErrInvalidName) {
		t.Fatalf("error is %v, want ErrInvalidName", err)
	}
	for name := range treeState(t, dir, ".") {
		t.Errorf("%s was written", name)
	}
	file.Cmd = strings.Repeat("\x01", lock.MaxCmd) // six bytes each in JSON
	held := tryHold(t, file)
	defer letGo(t, held)
	if got := getClaim(t, file.Path); got.Cmd != file.Cmd {
		t.Errorf("cmd of %d bytes was kept as %d", len(file.Cmd), len(got.Cmd))
	}
	if l := asLocked(t, second(file.TryAcquire(context.Background()))); l.Info == nil {
		t.Error("a claim of the greatest size can't be read")
	}
}
