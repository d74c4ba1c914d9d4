package dispatch_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/dispatch"
	"github.com/holdfast-go/holdfast/lock/evidence"
)

// TestAcquire_CreateExclusive: while one process has the id, neither another one nor
// this one gets it, and a file that is there already is never written to; another
// id is free.
func TestAcquire_CreateExclusive(t *testing.T) {
	dir := t.TempDir()
	holder := startChild(t, dir)
	nonce, ok := strings.CutPrefix(holder.Say(id), "claimed ")
	if !ok {
		t.Fatal("not claimed")
	}
	c := conflict(t, dir)
	if c.Holder == nil || c.Holder.Nonce != nonce || c.Holder.PID != holder.Cmd.Process.Pid {
		t.Errorf("holder is %+v, want %s", c.Holder, nonce)
	}
	if said := startChild(t, dir).Say(id); !strings.HasPrefix(said, "error: dispatch: held by pid ") {
		t.Errorf("a third process: %s", said)
	}
	free := must(dispatch.Locks{Dir: dir}.Acquire(t.Context(), other))(t)
	release(t, free, dispatch.OutcomeReleased)

	if said := holder.Say("release"); said != "released <nil>" {
		t.Fatal(said)
	}
	mine := acquire(t, dir)
	conflict(t, dir) // within one process as well
	if said := holder.Say(id); !strings.HasPrefix(said, "error: dispatch: held by pid ") {
		t.Errorf("the process that had it before: %s", said)
	}
	release(t, mine, dispatch.OutcomeReleased)
}

// TestAcquire_NoStealByAge: a claim of 2001, in a file of 2001, whose process lives
// stays its process's, whoever made it.
func TestAcquire_NoStealByAge(t *testing.T) { // guards: E6
	dir := t.TempDir()
	live := startChild(t, t.TempDir()).Cmd.Process.Pid
	put(t, lockPath(dir), foreign(t, fields{"pid": live}))
	age(t, lockPath(dir))
	c := conflict(t, dir)
	if c.Holder == nil || c.Holder.PID != live || c.Holder.CreatedAt != "2001-02-03T04:05:06.789Z" {
		t.Errorf("holder is %+v", c.Holder)
	}
	contains(t, c.Detail, "file written 2001-02-03T04:05:06.000Z", "no age in")
	put(t, lockPath(dir), foreign(t, fields{"pid": live, "createdAt": "2001-02-03T06:05:06.789+02:00"}))
	if c := conflict(t, dir); c.Holder == nil || c.Holder.CreatedAt != "2001-02-03T04:05:06.789Z" {
		t.Errorf("of another zone: holder is %+v", c.Holder)
	}
}

// TestAcquire_ReclaimsSameHostAndNoSuchProcess: what is dead by both, is taken over.
func TestAcquire_ReclaimsSameHostAndNoSuchProcess(t *testing.T) {
	dir := t.TempDir()
	put(t, lockPath(dir), foreign(t, nil))
	taken(t, dir)

	// The pid of a process that was there, and is not any more.
	gone := startChild(t, t.TempDir())
	gone.Kill()
	put(t, lockPath(dir), foreign(t, fields{"pid": gone.Cmd.Process.Pid}))
	taken(t, dir)
}

// TestAcquire_ReclaimsOfAnyYear: a dead claim is taken over, whatever its time says; also
// when that is of a year that no claim of ours can have.
func TestAcquire_ReclaimsOfAnyYear(t *testing.T) {
	gone := startChild(t, t.TempDir())
	gone.Kill()
	for _, at := range []string{"9999-12-31T23:59:59-01:00", "0000-01-01T00:00:00+01:00", "0001-01-01T00:00:00Z", "yesterday"} {
		dir := t.TempDir()
		put(t, lockPath(dir), foreign(t, fields{"pid": gone.Cmd.Process.Pid, "createdAt": at}))
		release(t, acquire(t, dir), dispatch.OutcomeReleased)
	}
}

// TestAcquire_OtherHostNeverReclaimed: a pid of another host says nothing here.
func TestAcquire_OtherHostNeverReclaimed(t *testing.T) {
	host := must(os.Hostname())(t)
	for _, name := range []string{"elsewhere", host + "x", strings.ToUpper(host) + ".example"} {
		dir := t.TempDir()
		put(t, lockPath(dir), foreign(t, fields{"hostname": name}))
		if c := conflict(t, dir); c.Holder == nil || c.Holder.Hostname != name {
			t.Errorf("host %q: holder is %+v", name, c.Holder)
		}
	}
}

// TestAcquire_PIDReuseObservable: another program's claim whose pid was given to
// another process stays, and the conflict tells a person all that the claim says.
func TestAcquire_PIDReuseObservable(t *testing.T) {
	dir := t.TempDir()
	put(t, lockPath(dir), foreign(t, fields{"pid": os.Getpid()}))
	c := conflict(t, dir)
	host, _ := os.Hostname()
	want := dispatch.Claim{
		GardenID: id, PID: os.Getpid(), Hostname: host, CreatedAt: "2001-02-03T04:05:06.789Z",
		Nonce: "00ff00ff00ff00ff", Owner: "entwurf_v2", LockPath: lockPath(dir), // and not the path that it names
	}
	that(t, c.Holder != nil && *c.Holder == want, "holder is %+v, want %+v", c.Holder, want)
	for _, part := range []string{fmt.Sprint("pid ", os.Getpid()), host, want.CreatedAt, "by hand"} {
		that(t, strings.Contains(c.Detail, part), "no %q in: %s", part, c.Detail)
	}
	release(t, c.Holder, dispatch.OutcomeNotOwned) // what a conflict shows is not ours
}

// TestAcquire_EmptyOrCorruptNeverRemoved: what can't be understood, or is another
// id's, stays for a person, though no process is behind it.
func TestAcquire_EmptyOrCorruptNeverRemoved(t *testing.T) {
	whole := string(foreign(t, nil))
	dead := fmt.Sprint(noSuchPID)
	second := func(field string) string { return strings.Replace(whole, "{", "{"+field+",", 1) }
	tests := map[string]string{
		"empty":               "",
		"a newline":           "\n",
		"NULs":                strings.Repeat("\x00", 200),
		"the beginning of it": whole[:len(whole)/2],
		"something behind it": whole + "x",
		"twice":               whole + whole,
		"a byte order mark":   "\ufeff" + whole,
		"text":                "hello",
		"null":                "null",
		"a number":            dead,
		"a list":              "[" + whole + "]",
		"too large":           whole + strings.Repeat(" ", 1<<20),
		"deep":                strings.Repeat("[", 20000),
		"another id's":        string(foreign(t, fields{"gardenId": other})),
		"the id in capitals":  string(foreign(t, fields{"gardenId": strings.ToUpper(id)})),
		"another owner's":     string(foreign(t, fields{"owner": "entwurf_v1"})),
		"the other format's":  `{"pid":` + dead + `,"created_at":"2001-02-03T04:05:06Z","nonce":"x"}`,
		"another PID":         second(`"PID":` + dead),
		"another gardenid":    second(`"gardenid":"` + id + `"`),
		"pid twice, null":     strings.Replace(whole, "}", `,"pid":null}`, 1),
		"id twice, another":   strings.Replace(whole, "}", `,"gardenId":"`+other+`"}`, 1),
	}
	for _, name := range []string{"gardenId", "pid", "hostname", "createdAt", "nonce", "owner"} {
		tests["without "+name] = string(foreign(t, fields{name: nil}))
		tests[name+" is null"] = strings.Replace(string(foreign(t, fields{name: "NULL"})), `"NULL"`, "null", 1)
		tests[name+" is a list"] = string(foreign(t, fields{name: []int{noSuchPID}}))
		tests[name+" is true"] = string(foreign(t, fields{name: true}))
	}
	for name, pid := range map[string]any{
		"0": 0, "-1": -1, "-7": -7, "1.5": 1.5, "a string": dead, "an empty string": "",
		"2^31": int64(1) << 31, "2^40": int64(1) << 40, "1e300": 1e300,
	} {
		tests["pid "+name] = string(foreign(t, fields{"pid": pid}))
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			put(t, lockPath(dir), []byte(text))
			age(t, lockPath(dir))
			c := conflict(t, dir)
			if c.Holder != nil {
				t.Errorf("holder is %+v, want none", *c.Holder)
			}
			for _, part := range []string{"file written 2001-02-03", "by hand"} {
				that(t, strings.Contains(c.Detail, part), "no %q in: %s", part, c.Detail)
			}
		})
	}
}

// TestAcquire_FurtherFields: what else is in another program's claim means nothing: neither
// that it is corrupt, nor that its process is another one.
func TestAcquire_FurtherFields(t *testing.T) { // guards: O2
	live := startChild(t, t.TempDir()).Cmd.Process.Pid
	for _, further := range []fields{
		{"pidfd": 77}, {"start": 1}, {"start": "x"}, {"cmd": 7}, {"mode": 1}, {"created_at": "junk"}, {"created_at": 7},
		{"boot_id": "another"}, {"released": true}, {"holdfast": 1}, {"holdfast": "x", "released": true}, {"kernel_lock": "ext4:1:2"},
	} {
		dir := t.TempDir()
		claim := fields{"pid": live}
		for name, value := range further {
			claim[name] = value
		}
		put(t, lockPath(dir), foreign(t, claim))
		if c := conflict(t, dir); c.Holder == nil || c.Holder.PID != live {
			t.Errorf("%v: holder is %+v", further, c.Holder)
		}
		put(t, lockPath(dir), foreign(t, further))
		taken(t, dir)
	}
	for _, pid := range []string{".0", "e0"} { // ways to write a whole number
		dir := t.TempDir()
		put(t, lockPath(dir), []byte(strings.Replace(string(foreign(t, nil)), fmt.Sprint(noSuchPID), fmt.Sprint(noSuchPID)+pid, 1)))
		taken(t, dir)
	}
}

// TestAcquire_WrongIDNeverRemoved: nor is a claim on another id that lies there, be
// its process this one, a live one or none.
func TestAcquire_WrongIDNeverRemoved(t *testing.T) {
	for _, pid := range []int{os.Getpid(), os.Getppid(), noSuchPID} {
		dir := t.TempDir()
		put(t, lockPath(dir), foreign(t, fields{"gardenId": other, "pid": pid}))
		if c := conflict(t, dir); c.Holder != nil {
			t.Errorf("pid %d: holder is %+v, want none", pid, c.Holder)
		}
	}

	// One of ours, made under the kernel lock that is free again.
	dir := t.TempDir()
	died(t, dir)
	moved := filepath.Join(dir, other+".lock")
	check(t, os.Rename(lockPath(dir), moved))
	check(t, os.Rename(lockPath(dir)+".flock", moved+".flock"))
	if claim, err := (dispatch.Locks{Dir: dir}).Acquire(t.Context(), other); err == nil {
		t.Errorf("taken over: %+v", claim)
	}
}

// TestAcquire_MarkerAge: over another's marker, the conflict tells how old that is, as it may be
// what a crash has left; and not how old the claim is.
func TestAcquire_MarkerAge(t *testing.T) {
	dir := t.TempDir()
	live := startChild(t, t.TempDir()).Cmd.Process.Pid
	put(t, lockPath(dir), foreign(t, nil))
	marker := lockPath(dir) + ".reclaim"
	put(t, marker, foreign(t, fields{"pid": live}))
	age(t, marker)
	c := conflict(t, dir)
	for _, part := range []string{marker + " (marker written 2001-02-03T04:05:06.000Z)", "remove the marker"} {
		that(t, strings.Contains(c.Detail, part), "no %q in: %s", part, c.Detail)
	}
	that(t, !strings.Contains(c.Detail, "file written"), "the claim's age is in: %s", c.Detail)
}

// TestAcquire_NotAFile: nor is what is no file at all, and nobody hangs on it.
func TestAcquire_NotAFile(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"a folder":          func(path string) error { return os.Mkdir(path, 0o755) },
		"a link to itself":  func(path string) error { return os.Symlink(path, path) },
		"a link to nothing": func(path string) error { return os.Symlink("nothing", path) },
		"a link to a dead claim": func(path string) error {
			elsewhere := filepath.Join(filepath.Dir(path), "elsewhere")
			put(t, elsewhere, foreign(t, nil))
			return os.Symlink(elsewhere, path)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			check(t, make(lockPath(dir)))
			c := conflict(t, dir)
			if c.Holder != nil || c.Unwrap().(*lock.LockedError).Evidence != evidence.NotALockFile {
				t.Errorf("%+v (%v)", c, c.Unwrap())
			}
		})
	}
}
