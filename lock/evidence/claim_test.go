package evidence_test

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
	"github.com/holdfast-go/holdfast/lock/evidence"
)

var goldenTime = time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.UTC)

func goldenClaim() evidence.Claim {
	return evidence.Claim{
		PID: 4242, CreatedAt: goldenTime, Cmd: "push",
		Nonce: "ABCDEFGHIJKLMNOPQRSTUVWXYZ", Hostname: "builder", User: "ana", Dir: "/srv/app",
		BootID:       "6f0c1d1e-5b0a-4e0e-9a54-1f6f3c2f7a10",
		PIDNamespace: 4026531836, TimeNamespace: 4026531834, Start: 1234567, PIDFD: 8901,
		KernelLock: "ext4:64768:131090",
	}
}

func golden(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	testkit.Check(t, err)
	return data
}

func sameClaim(a, b evidence.Claim) bool {
	if !a.CreatedAt.Equal(b.CreatedAt) || !a.RenewedAt.Equal(b.RenewedAt) {
		return false
	}
	a.CreatedAt, a.RenewedAt = b.CreatedAt, b.RenewedAt
	return a == b
}

// TestClaim_Golden pins the format: other programs, and older versions of this
// one, read and write these very bytes.
func TestClaim_Golden(t *testing.T) { // guards: O1
	fallback := goldenClaim()
	fallback.User, fallback.Dir = "", "" // as claims had none, before
	fallback.Cmd, fallback.KernelLock, fallback.RenewedAt, fallback.StaleAfter = "", "", goldenTime.Truncate(time.Second), 2*time.Hour
	session := goldenClaim()
	session.OwnerPID = 987
	bare := evidence.Claim{PID: 4242, CreatedAt: goldenTime, Cmd: "push"}
	for _, test := range []struct {
		file   string
		want   evidence.Claim
		ending string // what we write after the object; none: we don't write this file
		ours   bool
	}{
		{"claim_holdfast.json", goldenClaim(), "\n", true},
		{"claim_holdfast_fallback.json", fallback, "\n", true},
		{"claim_holdfast_session.json", session, "\n", true},
		{"claim_agency.json", bare, "", false},
		{"claim_holdfast_0.json", evidence.Claim{PID: 4242, CreatedAt: goldenTime, Cmd: "push", Hostname: "builder", Nonce: "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}, "", false},
		{"claim_other_program.json", bare, "", false},
	} {
		t.Run(test.file, func(t *testing.T) {
			data := golden(t, test.file)
			got, err := evidence.Decode(data)
			testkit.Check(t, err)
			if !sameClaim(got.Claim, test.want) {
				t.Errorf("decoded\n%+v, want\n%+v", got.Claim, test.want)
			}
			if !test.ours {
				return
			}
			encoded, err := test.want.Encode(nil)
			testkit.Check(t, err)
			if want := strings.TrimSuffix(string(data), test.ending) + "\n"; string(encoded) != want {
				t.Errorf("encoded\n%s, want\n%s", encoded, want)
			}
		})
	}
}

func TestClaim_JSONKeys(t *testing.T) { // guards: O1
	zero, err := json.Marshal(evidence.Claim{})
	testkit.Check(t, err)
	if want := `{"pid":0,"created_at":"0001-01-01T00:00:00Z"}`; string(zero) != want {
		t.Errorf("zero value is %s, want %s", zero, want)
	}
	full := goldenClaim()
	full.OwnerPID, full.Mode, full.RenewedAt, full.StaleAfter = 7, "shared", goldenTime, time.Hour
	data, err := json.Marshal(full)
	testkit.Check(t, err)
	var got map[string]any
	testkit.Check(t, json.Unmarshal(data, &got))
	want := []string{"pid", "created_at", "cmd", "owner_pid", "nonce", "hostname", "user", "dir", "boot_id", "pid_ns", "time_ns", "start", "pidfd",
		"kernel_lock", "mode", "renewed_at", "stale_after"}
	for _, key := range want {
		if _, ok := got[key]; !ok {
			t.Errorf("no key %q in %s", key, data)
		}
	}
	if n := reflect.TypeFor[evidence.Claim]().NumField(); len(got) != len(want) || n != len(want) {
		t.Errorf("%d keys, %d fields, want %d of each: add the new ones to this test", len(got), n, len(want))
	}
}

// TestClaim_Printed pins the line for people, and the group for logs.
func TestClaim_Printed(t *testing.T) {
	c := goldenClaim()
	c.OwnerPID = 7
	const line = `pid 4242 ("push") on "builder" as "ana", session of pid 7, since 2026-01-02T03:04:05Z`
	if got := c.String(); got != line {
		t.Errorf("in a line %s, want %s", got, line)
	}
	if got, want := c.Describe(goldenTime.Add(90*time.Second)), line+", 1m30s ago"; got != want {
		t.Errorf("with its age %s, want %s", got, want)
	}
	if got, want := c.LogValue().String(), "[pid=4242 host=builder cmd=push since=2026-01-02 03:04:05.678901234 +0000 UTC user=ana owner_pid=7]"; got != want {
		t.Errorf("logged %s, want %s", got, want)
	}
	if got, want := (evidence.Claim{PID: 5}).String(), "pid 5"; got != want {
		t.Errorf("in a line %s, want %s", got, want)
	}
}

func TestClaim_NotAClaim(t *testing.T) { // guards: H2
	for name, content := range testkit.NotClaims {
		if claim, err := evidence.Decode([]byte(content)); err == nil {
			t.Errorf("%s was read as %+v", name, claim)
		}
	}
}

// TestClaim_OfAnotherProgram: of a claim that does not show to be ours only four fields
// mean something; nothing else in it, of whatever type, makes it unreadable, or one of ours.
func TestClaim_OfAnotherProgram(t *testing.T) { // guards: O2
	want := evidence.Claim{PID: 4242, CreatedAt: goldenTime.Truncate(time.Second)}
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
			got, err := evidence.Decode([]byte(data + "}"))
			if err != nil {
				t.Errorf("%s}: %v", data, err)
			} else if !sameClaim(got.Claim, want) {
				t.Errorf("%s} was read as %+v", data, got.Claim)
			}
		}
	}
}

func FuzzDecodeClaim(f *testing.F) { // guards: H2
	for _, content := range testkit.NotClaims {
		f.Add([]byte(content))
	}
	for _, name := range []string{"claim_holdfast.json", "claim_holdfast_fallback.json", "claim_holdfast_0.json", "claim_agency.json", "claim_other_program.json"} {
		f.Add(golden(f, name))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		claim, err := evidence.Decode(data)
		if err != nil {
			if claim != nil {
				t.Fatalf("a claim with an error: %+v, %v", claim, err)
			}
			return
		}
		if claim.PID <= 0 || claim.PID > math.MaxInt32 || claim.CreatedAt.IsZero() {
			t.Fatalf("accepted %+v", claim)
		}
		again, err := claim.Encode(nil)
		if err != nil {
			return // longer than it was, or a zone that can't be written
		}
		second, err := evidence.Decode(again)
		if err != nil {
			t.Fatalf("can't read back %s: %v", again, err)
		}
		if !sameClaim(claim.Claim, second.Claim) {
			t.Fatalf("round trip of\n%+v gave\n%+v", claim, second)
		}
	})
}

// FuzzClaim_Encode: what we write is what package json would write.
func FuzzClaim_Encode(f *testing.F) {
	for _, s := range []string{"", "push", `a "b" \ <c> & d`, "tab\tline\nNUL\x00", "ümlaut \u2028 \U0001f512", "\xff\xfe", "\x7f"} {
		f.Add(s, s, 4242, uint64(0), int64(1767323045678901234))
		f.Add("x", s, -1, uint64(1<<63), int64(0))
	}
	f.Fuzz(func(t *testing.T, cmd, other string, pid int, n uint64, ns int64) {
		claim := evidence.Claim{
			PID: pid, CreatedAt: time.Unix(0, ns).In(time.FixedZone("", int(ns%86400))), Cmd: cmd, OwnerPID: int(n % (1 << 31)),
			Nonce: other, Hostname: cmd, BootID: other, PIDNamespace: n, TimeNamespace: n / 2, Start: n / 3, PIDFD: n / 5,
			KernelLock: cmd, Mode: other, StaleAfter: time.Duration(n / 7),
		}
		if n%2 == 1 {
			claim.RenewedAt = time.Unix(ns%1e9, 0).UTC()
		}
		var want bytes.Buffer
		if err := json.NewEncoder(&want).Encode(claim); err != nil {
			t.Skip("package json can't write it, so there is nothing to compare with: ", err)
		}
		got, err := claim.Encode(nil)
		got = bytes.Replace(got, []byte(`,"holdfast":1,"released":false`), nil, 1)
		if err != nil && want.Len() > 64<<10 {
			return
		}
		if err != nil || !bytes.Equal(got, want.Bytes()) {
			t.Errorf("%s (%v), want\n%s", got, err, want.Bytes())
		}
	})
}
