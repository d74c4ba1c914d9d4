package main

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/lock"
)

// TestRun_Permits: so many run at a time; who waits has whichever comes free, also from a
// holder that was killed, and all of them can be seen.
func TestRun_Permits(t *testing.T) {
	conn := server.Conn()
	one, two := hold(t, conn, "--permits", "2", "--label", "slot one", "slots/a"), hold(t, conn, "--permits", "2", "--label", "slot two", "slots/a")
	_, told := want(t, 75, "", "run", "--pg", conn, "--permits", "2", "--try", "slots/a", "--", "true")
	wantText(t, told, "no permit of slots/a is free; the command was not run", "permit 1  backend ", ": slot one, since ", "permit 2  backend ", ": slot two, since ")
	_, told = want(t, 75, "", "run", "--pg", conn, "--permits", "2", "--timeout", "10ms", "slots/a", "--", "true")
	wantText(t, told, "no permit of slots/a came free in 10ms")
	want(t, 75, "", "run", "--pg", conn, "--permits", "2", "--timeout", "0", "slots/a", "--", "true")
	_, told = want(t, 75, "", "run", "--pg", conn, "--try", "slots/a", "--", "true")
	wantText(t, told, "slots/a is locked, as permits of it are held; the command was not run", "permit 1  backend ")
	out, _ := want(t, 3, "", "status", "--pg", conn, "slots/a")
	wantText(t, out, "slots/a: held", "permits of it are held", ": slot one, since ", ": slot two, since ")
	out, _ = want(t, 3, "", "status", "--pg", conn, "--json", "slots/a")
	report := decode[struct {
		Permits []struct {
			Number int
			lock.Status
		}
	}](t, out)
	if p := report.Permits; len(p) != 2 || p[0].Number != 1 || p[1].Info == nil || p[1].Info.Cmd != "slot two" || p[1].Path != "slots/a.permit-2" {
		t.Errorf("permits: %s", out)
	}
	out, _ = want(t, 0, "", "list", "--pg", conn)
	wantText(t, out, "slots/a.permit-1", "slots/a.permit-2")

	next := start(t, "run", "--pg", conn, "--permits", "2", "slots/a", "--", "sh", "-c", "echo $HOLDFAST_PERMIT $HOLDFAST_LOCK $HOLDFAST_FENCE; cat")
	next.said(next.stderr, "waiting for a permit of slots/a")
	check(t, two.cmd.Process.Kill())
	next.said(next.stdout, "2 slots/a.permit-2 ")
	want(t, 75, "", "run", "--pg", conn, "--permits", "2", "--try", "slots/a", "--", "true")
	want(t, 0, "", "run", "--pg", conn, "--permits", "3", "--try", "slots/a", "--", "true")
	whole := start(t, "run", "--pg", conn, "slots/a", "--", "sh", "-c", "echo the whole; cat")
	whole.said(whole.stderr, "waiting for slots/a, as permits of it are held")
	for _, p := range []*process{one, next} {
		if code := p.finish(""); code != 0 {
			t.Errorf("exit code %d\n%s", code, p.stderr)
		}
	}
	whole.said(whole.stdout, "the whole")
	if code := whole.finish(""); code != 0 {
		t.Errorf("exit code %d\n%s", code, whole.stderr)
	}
	if out, _ := want(t, 0, "", "list", "--pg", conn); strings.Contains(out, "slots/a") {
		t.Errorf("left behind:\n%s", out)
	}
}

// TestRun_PermitsWrong: what has no sense is refused before the database is asked.
func TestRun_PermitsWrong(t *testing.T) {
	for wrong, args := range map[string][]string{
		"from 1 to 20 in a database":   {"--permits", "21", "slots/a"},
		"from 1 to 20 in a database, ": {"--permits", "0", "slots/a"},
		"one permit has one holder":    {"--permits", "2", "--shared", "slots/a"},
		"--also exclude each other":    {"--permits", "2", "--also", "slots/b", "slots/a"},
		"is no name of a lock":         {"--permits", "2", "slots.lock"},
		"--nested is for lock files":   {"--permits", "2", "--nested", "slots/a"},
	} {
		_, told := want(t, 64, "", append(append([]string{"run", "--pg", "host=nowhere"}, args...), "--", "true")...)
		wantText(t, told, wrong)
	}
	_, told := want(t, 64, "", "run", "--pg", server.Conn(), "--permits", "2", "#/7", "--", "true")
	wantText(t, told, "#/7")
}
