package model

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
)

var replayFor = flag.Duration("for", 30*time.Minute, "bounds the replay: of those walks that there is no time for, a random choice is left out")

var seedFlag = flag.Uint64("seed", 0, "repeats a sample of walks; 0: a new one")

// kept is where package lock finds the walks that it replays in its own tests.
var kept = filepath.Join("..", "..", "lock", "testdata", "model.txt")

// TestWalks_Kept: the walks that package lock replays are the schedules of all counterexamples
// that can be, and two writers in every order.
func TestWalks_Kept(t *testing.T) {
	var b strings.Builder
	add := func(walks ...*Walk) {
		for _, w := range walks {
			b.WriteString(w.String())
		}
	}
	for _, g := range append(Guards[:len(Guards):len(Guards)], Open...) {
		if g.Case.Replayable() {
			m := g.Case
			m.Name, m.Excused = g.Name, g.Prevents // some are in Open
			add(m.Along(g.Break().Trace))
		}
	}
	for _, m := range []Machine{
		{Name: "two writers", Roles: []Role("ww")},
		{Name: "a writer and a reader", Roles: []Role("wr")},
	} {
		add(m.Cover()...)
	}
	if *update {
		if err := os.WriteFile(kept, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if data, err := os.ReadFile(kept); err != nil || string(data) != b.String() {
		t.Errorf("%s is not what the model says (%v): -update writes it anew", kept, err)
	}
}

// covered are the cases of which every move is replayed.
var covered = []Machine{
	{Roles: []Role("ww"), DeadMarker: true},
	{Roles: []Role("ww"), DeadFile: true, DeadMarker: true},
	{Roles: []Role("ww"), Tidy: true},
	{Roles: []Role("wF")},
	{Roles: []Role("rF")},
	{Roles: []Role("wL"), Tidy: true},
	{Roles: []Role("wi"), DeadFile: true},
	{Roles: []Role("bb")},
	{Roles: []Role("ww"), Budget: may(cancel, 1)},
}

// coveredLong are those for -complete.
var coveredLong = []Machine{
	{Roles: []Role("wE"), DeadFile: true},
	{Roles: []Role("wK"), DeadFile: true},
	{Roles: []Role("tt")},
	{Roles: []Role("wr"), Tidy: true},
	{Roles: []Role("ww"), DeadFile: true},
	{Roles: []Role("ww"), Budget: may(rmP, 1)},
	{Roles: []Role("ww"), Budget: may(crash, 1)},
	{Roles: []Role("wr"), DeadFile: true},
	{Roles: []Role("ww"), Budget: may(mvP, 1)},
	{Roles: []Role("wr"), Budget: may(crash, 1)},
	{Roles: []Role("rr")},
	{Roles: []Role("tu")},
	{Roles: []Role("uu")},
	{Roles: []Role("ww"), Budget: may(rmS, 1)},
	{Roles: []Role("ww"), Budget: may(mvS, 1)},
	{Roles: []Role("wr"), Budget: may(rmS, 1)},
	{Roles: []Role("wr"), Budget: may(rmP, 1)},
	{Roles: []Role("rr"), Budget: may(crash, 1)},
	{Roles: []Role("rr"), Budget: may(rmP, 1)},
	{Roles: []Role("rr"), DeadFile: true},
	{Roles: []Role("rr"), Tidy: true},
	{Roles: []Role("wE"), DeadFile: true, DeadMarker: true, Budget: may(rmM, 1)},
	{Roles: []Role("ww"), Budget: may(stop, 1)},
	{Roles: []Role("wr"), Budget: may(stop, 1)},
	{Roles: []Role("ww"), Slow: true},
	{Roles: []Role("ww"), Budget: may(child, 1)},
	{Roles: []Role("wr"), Budget: may(child, 1)},
	{Roles: []Role("ww"), Budget: may(execd, 1)},
	{Roles: []Role("wr"), Budget: may(cancel, 1)},
	{Roles: []Role("ww"), Budget: may(noUnl, 1)},
	{Roles: []Role("ww"), Budget: may(again, 1), Fence: true},
	{Roles: []Role("bb"), DeadFile: true},
	{Roles: []Role("bb"), DeadFile: true, DeadMarker: true},
	{Roles: []Role("bbb")},
	{Roles: []Role("rL")},
	{Roles: []Role("ri")},
	{Roles: []Role("ti")},
	{Roles: []Role("www")},
	{Roles: []Role("wwr")},
	{Roles: []Role("wwu")},
}

// TestWalks_Replayed: every move of some cases, and a random sample of all, is replayed by real
// processes, with package lock's TestModel.
func TestWalks_Replayed(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs Linux, to see who has which kernel lock")
	}
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	r := rand.New(rand.NewPCG(seed, 0))
	var texts []string
	add := func(walks []*Walk) {
		for _, w := range walks {
			texts = append(texts, w.String())
		}
	}
	cover, sample := covered, 1
	if *complete {
		cover, sample = append(cover[:len(cover):len(cover)], coveredLong...), 20
	}
	for _, m := range cover {
		m.Name = "every move of " + m.rolesText()
		add(m.Cover())
	}
	sampled := 0
	for _, c := range Cases() {
		if c.Replayable() && (*complete || r.IntN(6) == 0) {
			c.Name = fmt.Sprintf("sample %d of %s", seed, c.Name)
			add(c.Sample(r, sample))
			sampled += sample
		}
	}
	r.Shuffle(len(texts), func(i, k int) { texts[i], texts[k] = texts[k], texts[i] })
	sum := fmt.Sprintf("seed %d: %d walks, %d of them a sample", seed, len(texts), sampled)
	t.Logf("%s; -seed=%d repeats it", sum, seed)
	path := filepath.Join(t.TempDir(), "walks.txt")
	if err := os.WriteFile(path, []byte(strings.Join(texts, "")), 0o644); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	cmd := exec.Command("go", "test", "-count=1", "-v", "-timeout=3h", "-run=^TestModel$", "github.com/holdfast-go/holdfast/lock")
	cmd.Env = append(os.Environ(), "HOLDFAST_WALKS="+path, "HOLDFAST_WALKS_FOR="+replayFor.String())
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestModel") {
		t.Errorf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
	if *complete && !t.Failed() {
		replayed := regexp.MustCompile(`\d+ of \d+ walks, \d+ moves`).Find(out)
		keep(t, fmt.Sprintf("%s; real processes went %s, in %v: each as the model says.", sum, replayed, time.Since(began).Round(time.Second)))
	}
}

// keep adds a line to what TestCases has kept.
func keep(t *testing.T, line string) {
	data, err := os.ReadFile(results)
	if err != nil {
		t.Fatal(err)
	}
	head, cases, _ := strings.Cut(string(data), "\n\n")
	if err := os.WriteFile(results, []byte(head+"\n"+line+"\n\n"+cases), 0o644); err != nil {
		t.Error(err)
	}
}
