package lock_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
)

// sign is another program's lock file: "owner 4242".
func sign(data []byte) (evidence.Claim, error) {
	var seen struct {
		PID   int       `json:"pid"`
		Owner string    `json:"owner"`
		When  time.Time `json:"when"`
	}
	if err := json.Unmarshal(data, &seen); err != nil {
		return evidence.Claim{}, err
	}
	if seen.Owner == "" || seen.When.IsZero() {
		return evidence.Claim{}, errors.New("no owner, or no time")
	}
	return evidence.Claim{PID: seen.PID, CreatedAt: seen.When, Cmd: seen.Owner}, nil
}

// signed is a lock whose lock file another program can read.
func signed(t *testing.T, owner string) lock.File {
	return lock.File{
		Path: filepath.Join(t.TempDir(), "lock"),
		Format: &lock.Format{
			Fields: func(c evidence.Claim) map[string]string {
				return map[string]string{"owner": owner, "when": c.CreatedAt.Format(time.RFC3339), "a \"b\"": "<c>\n"}
			},
			Parse: sign,
		},
	}
}

// TestFile_Fields: further fields are in the lock file, and readers without them are
// content with it.
func TestFile_Fields(t *testing.T) { // guards: O4
	f := signed(t, "me")
	held := tryHold(t, f)
	data := must(os.ReadFile(f.Path))(t)
	var fields map[string]any
	check(t, json.Unmarshal(data, &fields), "in", data)
	info := held.Info()
	for name, want := range map[string]any{
		"owner": "me", "when": info.CreatedAt.Format(time.RFC3339), "a \"b\"": "<c>\n",
		"pid": float64(os.Getpid()), "nonce": info.Nonce,
	} {
		equal(t, fields[name], want, name)
	}
	if locked := asLocked(t, tryErr(t, lock.File{Path: f.Path})); locked.Info == nil || *locked.Info != info {
		t.Errorf("others see %+v, want %+v", locked.Info, info)
	}
	letGo(t, held)
	wantFree(t, f.Path)
}

func tryErr(t *testing.T, f lock.File) error {
	t.Helper()
	held, err := f.TryAcquire(t.Context())
	if err == nil {
		t.Error("acquired", held.Path(), held.Release())
	}
	return err
}

// TestFile_FieldsRefused: fields that can't be are an error, and nothing is left.
func TestFile_FieldsRefused(t *testing.T) {
	for name, fields := range map[string]map[string]string{
		"one of ours": {"pid": "1"},
		"too large":   {"x": strings.Repeat("x", 64<<10)},
	} {
		t.Run(name, func(t *testing.T) {
			f := lock.File{Path: filepath.Join(t.TempDir(), "lock"), Format: &lock.Format{Fields: func(evidence.Claim) map[string]string { return fields }}}
			wantErr(t, tryErr(t, f), lock.ErrInvalidName)
			wantFree(t, f.Path)
		})
	}
}

// TestFile_ParseRefused: a Parse that can't be is an error that says so, before anybody is shut
// out by a file that it makes or takes for nobody's; and nothing is left.
func TestFile_ParseRefused(t *testing.T) {
	for want, parse := range map[string]func([]byte) (evidence.Claim, error){
		"neither an error nor a CreatedAt":         func([]byte) (evidence.Claim, error) { return evidence.Claim{PID: 1}, nil },
		"of this File's own: no usable pid":        func([]byte) (evidence.Claim, error) { return evidence.Claim{CreatedAt: time.Now()}, nil },
		"can't read a claim of this File's own: x": func([]byte) (evidence.Claim, error) { return evidence.Claim{}, errors.New("x") },
	} {
		f := lock.File{Path: filepath.Join(t.TempDir(), "lock"), Format: &lock.Format{Parse: parse}}
		if err := tryErr(t, f); !errors.Is(err, lock.ErrInvalidName) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
		wantFree(t, f.Path)
		if strings.Contains(want, "own") { // of another's file it may be so
			continue
		}
		check(t, os.WriteFile(f.Path, []byte("theirs"), 0o600))
		if err := tryErr(t, f); !errors.Is(err, lock.ErrInvalidName) || !strings.Contains(err.Error(), want) {
			t.Errorf("of another program's file: %v; want %q", err, want)
		}
		wantErr(t, errOf(f.Inspect(t.Context())), lock.ErrInvalidName, "inspecting another program's file")
	}
}

// TestFile_Parse: another program's lock file is judged by what Parse reads in it,
// and one that it can't read is nobody's to remove.
func TestFile_Parse(t *testing.T) { // guards: O2
	gone := `"pid":2147483646,"when":"2020-01-02T03:04:05Z"`
	for _, test := range []struct {
		name, content string
		evidence      evidence.Evidence // "": taken over
	}{
		{"dead", `{"owner":"other",` + gone + `}`, ""},
		{"no owner, dead", `{"created_at":"2020-01-02T03:04:05Z",` + gone + `}`, evidence.NotALockFile},
		{"no pid", `{"owner":"other","when":"2020-01-02T03:04:05Z"}`, evidence.NotALockFile},
		{"empty", ``, evidence.NotALockFile},
		{"garbage", `{"pid":`, evidence.NotALockFile},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := signed(t, "me")
			f.StaleAfter = time.Hour
			putFile(t, f.Path, []byte(test.content), time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC))
			if test.evidence == "" {
				letGo(t, tryHold(t, f))
				return
			}
			equal(t, asLocked(t, tryErr(t, f)).Evidence, test.evidence, "evidence")
			equal(t, string(must(os.ReadFile(f.Path))(t)), test.content, "left")
		})
	}
}

// TestFields_OwnNames: a further field can't pass for one of ours, in capitals either, which
// package json reads as the same.
func TestFields_OwnNames(t *testing.T) {
	for _, name := range []string{"pid", "Released", "MODE", "Boot_ID"} {
		f := lock.File{Path: filepath.Join(t.TempDir(), ".lock"), Format: &lock.Format{Fields: func(evidence.Claim) map[string]string {
			return map[string]string{name: "x"}
		}}}
		wantErr(t, errOf(f.TryAcquire(t.Context())), lock.ErrInvalidName, name)
		isAbsent(t, f.Path)
	}
}

// TestParse_DiedWhileClaiming: what a crash leaves of a claim is no other program's file,
// though it can't be parsed.
func TestParse_DiedWhileClaiming(t *testing.T) { // guards: E3
	needsMarks(t)
	f := signed(t, "me")
	f.StaleAfter = -1
	dead := start(t, "parker", f.Path)
	dead.Do(lock.StepCreated, "parked")
	dead.Kill()
	letGo(t, tryHold(t, f))
}
