//go:build linux

package main

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write what is expected anew")

func TestMain(m *testing.M) {
	if name := os.Getenv(agentVar); name != "" {
		runAgent(name)
		return
	}
	code := m.Run()
	removeScripts()
	os.Exit(code)
}

// TestPeers: each can be had, holds the lock against itself, and gives it back.
func TestPeers(t *testing.T) {
	for _, p := range peers {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			if why := p.missing(); why != "" {
				t.Skip(why)
			}
			pair, stop, err := group(p, filepath.Join(t.TempDir(), "lock"), 2)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(stop)
			if _, err := pair[0].ask(10*time.Second, "lock"); err != nil {
				t.Fatal(err)
			}
			if _, err := pair[1].ask(200*time.Millisecond, "lock"); !errors.Is(err, errHung) {
				t.Fatalf("a second one: %v, want %v", err, errHung)
			}
			if _, err := pair[0].ask(10*time.Second, "unlock"); err != nil {
				t.Fatal(err)
			}
			if _, err := pair[1].answer(10 * time.Second); err != nil {
				t.Errorf("the lock after its release: %v", err)
			}
			if p.readers() {
				readersTogether(t, p)
			}
		})
	}
}

func readersTogether(t *testing.T, p *peer) {
	pair, stop, err := group(p, filepath.Join(t.TempDir(), "lock"), 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	for _, a := range pair {
		if p.script != "" {
			continue // its readers are in its loop only
		}
		if _, err := a.ask(10*time.Second, "lock", "shared"); err != nil {
			t.Errorf("readers together: %v", err)
		}
	}
}

// TestModuleVersion: the report says what it measured: this tree, and released peers.
func TestModuleVersion(t *testing.T) {
	if got, want := moduleVersion("github.com/holdfast-go/holdfast"), "this tree"; got != want {
		t.Errorf("holdfast: %q, want %q", got, want)
	}
	if got := moduleVersion("github.com/gofrs/flock"); !strings.HasPrefix(got, "v") {
		t.Errorf("gofrs/flock: %q, want a version", got)
	}
}

func TestUnderLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if underLock(path) != 1 {
		t.Error("alone, but taken for two")
	}
	if err := os.Symlink("1", path+".mark"); err != nil { // a process that lives
		t.Fatal(err)
	}
	if underLock(path) != 0 {
		t.Error("two, but taken for alone")
	}
}

func canned(t *testing.T) *Results {
	t.Helper()
	r, err := readResults("testdata/results.json")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestReport(t *testing.T) {
	r := canned(t)
	dir := t.TempDir()
	plots, err := plotAll(r, filepath.Join(dir, r.Date))
	if err != nil {
		t.Fatal(err)
	}
	if len(plots) != 2 {
		t.Errorf("plots: %v, want 2", plots)
	}
	for _, file := range plots {
		if text, err := os.ReadFile(filepath.Join(dir, file)); err != nil || !strings.Contains(string(text), "<svg") {
			t.Errorf("%s is no SVG: %v", file, err)
		}
	}
	got := report(r, plots)
	const golden = "testdata/report.md"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the report is not %s (-update writes it anew):\n%s", golden, got)
	}
}

func TestFillReadme(t *testing.T) {
	dir := t.TempDir()
	readme := filepath.Join(dir, "README.md")
	before, after := "# x\n\n", "\n\n## Packages\n"
	if err := os.WriteFile(readme, []byte(before+beginMark+"\nold\n"+endMark+after), 0o666); err != nil {
		t.Fatal(err)
	}
	r := canned(t)
	plots := map[string]string{"handoff": "h.svg"}
	var texts []string
	for range 2 {
		if err := fillReadme(readme, r, filepath.Join(dir, "benchmarks/results", r.Date), plots); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(readme)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	if texts[0] != texts[1] {
		t.Error("filling it in twice changes it twice")
	}
	got := texts[0]
	if !strings.HasPrefix(got, before+beginMark) || !strings.HasSuffix(got, endMark+after) || strings.Contains(got, "\nold\n") {
		t.Errorf("what is around the marks has changed, or what was between them has not:\n%s", got)
	}
	if !strings.Contains(got, "](benchmarks/results/h.svg)") || !strings.Contains(got, "**holdfast**") {
		t.Errorf("it lacks the plot or the table:\n%s", got)
	}
	if _, err := between("no marks", ""); err == nil {
		t.Error("a file without marks was filled in")
	}
}

func TestCompare(t *testing.T) {
	of := func(ours, base float64) *Results {
		return &Results{Handoff: []Figure{
			{Peer: floorName, Setting: "disk", N: 1, Median: 1},
			{Peer: oursName, Setting: "disk", N: 1, Median: ours},
			{Peer: baseName, Setting: "disk", N: 1, Median: base},
			{Peer: baseName, Setting: "tmpfs", N: 1, Median: 1}, // ours failed
			{Peer: oursName, Setting: "tmpfs"},
		}}
	}
	if err := compare(of(105, 100)); err != nil {
		t.Errorf("5 %% slower: %v", err)
	}
	if err := compare(of(120, 100)); err != errSlower {
		t.Errorf("20 %% slower: %v, want %v", err, errSlower)
	}
	if err := compare(&Results{}); err == nil || err == errSlower {
		t.Errorf("nothing measured: %v", err)
	}
}

func TestTakeTurns(t *testing.T) {
	turns := ""
	got := takeTurns("s", 3, time.Hour, "a", []contestant{
		{"a", func() (float64, error) { turns += "a"; return 10, nil }},
		{"b", func() (float64, error) { turns += "b"; return 30, nil }},
		{"c", func() (float64, error) { turns += "c"; return 0, errors.New("broken") }},
	})
	if turns != "abcbaab" {
		t.Errorf("turns: %s", turns)
	}
	if got[1].Ratio != 3 || got[1].N != 3 || got[2].Note != "broken" || got[2].N != 0 {
		t.Errorf("%+v", got)
	}
}
