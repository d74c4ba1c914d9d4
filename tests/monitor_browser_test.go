//go:build linux

package tests

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// startServe starts "holdfast serve", and returns the page's address.
func startServe(t *testing.T, dirs ...string) string {
	t.Helper()
	cmd := exec.Command(holdfast, append([]string{"serve", "-json"}, dirs...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	background(t, cmd)
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var at struct {
		URL string `json:"url"`
	}
	if err := json.Unmarshal(line, &at); err != nil {
		t.Fatal(err)
	}
	return at.URL
}

// page is the monitor's, in a browser.
type page struct{ *browser }

func openMonitor(t *testing.T, dirs ...string) page {
	t.Helper()
	b := startBrowser(t)
	b.open(startServe(t, dirs...))
	return page{b}
}

// rows are the cells of the table as they are in the document.
func (p page) rows() [][]string {
	p.t.Helper()
	return eval[[][]string](p.browser, `return [...document.querySelectorAll("#rows tr")].map(
		tr => [...tr.cells].map(td => td.textContent))`)
}

// find waits for a row with all these texts in its cells.
func (p page) find(texts ...string) (row []string) {
	p.t.Helper()
	eventually(p.t, fmt.Sprintf("a row with %q", texts), func() bool {
		for _, row = range p.rows() {
			if line := strings.Join(row, "|"); !slices.ContainsFunc(texts, func(s string) bool { return !strings.Contains(line, s) }) {
				return true
			}
		}
		return false
	})
	return row
}

func (p page) count() int {
	p.t.Helper()
	return eval[int](p.browser, `return document.querySelectorAll("#rows tr").length`)
}

func (p page) text(selector string) string {
	p.t.Helper()
	return eval[string](p.browser, `return document.querySelector(arguments[0]).innerText`, selector)
}

// filter types what is wanted, as a person does.
func (p page) filter(text string) {
	p.t.Helper()
	eval[any](p.browser, `document.activeElement.blur()`)
	p.press("/")
	if eval[string](p.browser, `return document.activeElement.id`) != "filter" {
		p.t.Fatal("the key / does not lead to the filter")
	}
	eval[any](p.browser, `document.activeElement.select()`)
	p.press(text)
}

// unfilter empties the filter with Escape, as browsers do for a search field.
func (p page) unfilter() { p.t.Helper(); p.press("\ue00c") }

// TestMonitor_Page: the page shows a holder, a dead one and one who waits, and keeps
// up with them without being loaded again.
func TestMonitor_Page(t *testing.T) {
	dir, other := t.TempDir(), filepath.Join(t.TempDir(), "other")
	if err := os.MkdirAll(filepath.Join(dir, "jobs"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	const hostile = "<img src=x onerror=\"window.robbed=1\">\u202e<script>window.robbed=1</script>"
	holder := exec.Command(holdfast, "run", "-label", hostile, filepath.Join(dir, "held.lock"), "--", "sleep", "1000")
	background(t, holder)
	dead := startMember(t, filepath.Join(dir, "jobs", "dead.lock"))
	dead.do("acquire", "held")
	dead.kill()
	first, second := startMember(t, filepath.Join(dir, "jobs", "wanted.lock")), startMember(t, filepath.Join(dir, "jobs", "wanted.lock"))
	first.do("acquire", "held")
	second.do("acquire", "waiting")
	elsewhere := startMember(t, filepath.Join(other, "elsewhere.lock"))
	elsewhere.do("acquire", "held")
	pid := func(m *actor) string { return strconv.Itoa(m.cmd.Process.Pid) }

	p := openMonitor(t, dir, other)
	loaded := eval[float64](p.browser, `return performance.timeOrigin`)

	row := p.find("held.lock", "held", strconv.Itoa(holder.Process.Pid))
	shown := strings.ReplaceAll(hostile, "\u202e", `\u{202e}`)
	if row[3] != shown {
		t.Errorf("the holder is shown as %q, want %q", row[3], shown)
	}
	host, _ := os.Hostname()
	if row[4] != host || row[6] != "exclusive" || row[7] == "" || row[8] != dir || !strings.Contains(row[5], "since") {
		t.Errorf("of the holder the page says %q", row)
	}
	p.find("dead", "jobs/dead.lock", pid(dead), "member")
	p.find("held", "jobs/wanted.lock", pid(first))
	waiting := p.find("waiting", "jobs/wanted.lock", pid(second), "waits for pid "+pid(first))
	if waiting[0] != "waiting" {
		t.Errorf("who waits is shown as %q", waiting[0])
	}
	p.find("elsewhere.lock", other)
	if got := p.count(); got != 5 {
		t.Errorf("%d rows: %q", got, p.rows())
	}
	if got := p.text("#counts"); !strings.Contains(got, "3 held") || !strings.Contains(got, "1 waiting") || !strings.Contains(got, "1 dead") {
		t.Errorf("counted: %q", got)
	}
	p.screenshot("page")

	// The filter, and the keyboard. A row that stays is the same element.
	p.filter("jobs WANTED")
	eventually(t, "two rows are left", func() bool { return p.count() == 2 })
	if got := p.text("#shown"); got != "2 of 5 shown" {
		t.Errorf("of the filter it says %q", got)
	}
	p.unfilter()
	eventually(t, "all rows are back", func() bool { return p.count() == 5 })
	eval[any](p.browser, `document.querySelector("#rows button").focus()`)
	p.press("\ue007") // Enter
	if open := eval[string](p.browser, `return document.activeElement.getAttribute("aria-expanded")`); open != "true" {
		t.Errorf("Enter does not open the row: %q", open)
	}
	before := p.text("#fresh")
	eventually(t, "it has refreshed itself", func() bool { return p.text("#fresh") != before })
	if open := eval[string](p.browser, `return document.activeElement.getAttribute("aria-expanded")`); open != "true" {
		t.Errorf("a refresh took the focus, or closed the row: %q", open)
	}

	// Sorting.
	eval[any](p.browser, `document.querySelectorAll("th button")[0].click()`)
	first3 := []string{p.rows()[0][0], p.rows()[4][0]}
	if sorted := eval[string](p.browser, `return document.querySelectorAll("th")[0].getAttribute("aria-sort")`); sorted != "ascending" || !slices.Equal(first3, []string{"dead", "waiting"}) {
		t.Errorf("sorted %s by state: %q", sorted, p.rows())
	}

	// What is released disappears; who waited has it.
	first.do("release", "released")
	second.expect(second.answer(), "held")
	p.find("held", "jobs/wanted.lock", pid(second))
	eventually(t, "the former holder's row disappears", func() bool {
		return !slices.ContainsFunc(p.rows(), func(r []string) bool { return r[2] == pid(first) })
	})
	second.do("release", "released")
	eventually(t, "its row disappears", func() bool { return p.count() == 3 })

	// An engine that is out of reach, and back.
	if err := os.Rename(other, other+".gone"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the engine is said to be out of reach", func() bool {
		said := p.text("#alarms")
		return strings.Contains(said, other) && strings.Contains(said, "can't be read in full") && strings.Contains(said, "no such file")
	})
	p.find("held.lock")
	p.screenshot("unreachable")
	if err := os.Rename(other+".gone", other); err != nil {
		t.Fatal(err)
	}
	p.find("elsewhere.lock")
	eventually(t, "the alarm ends", func() bool { return p.text("#alarms") == "" })

	if eval[float64](p.browser, `return performance.timeOrigin`) != loaded {
		t.Error("the page was loaded again")
	}
	if eval[bool](p.browser, `return "robbed" in window || document.querySelector("img") !== null`) {
		t.Error("a holder's text became a part of the page")
	}
	if all := p.complaints(); len(all) > 0 {
		t.Errorf("the browser complains: %q", all)
	}
}

// TestMonitor_ServerGone: the page says that it is out of date, and since when.
func TestMonitor_ServerGone(t *testing.T) {
	b := startBrowser(t)
	dir := t.TempDir()
	m := startMember(t, filepath.Join(dir, "l.lock"))
	m.do("acquire", "held")
	cmd := exec.Command(holdfast, "serve", dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	background(t, cmd)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	b.open(strings.TrimSpace(strings.TrimPrefix(line, "listening on ")))
	p := page{b}
	p.find("l.lock")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it says that it is not refreshed", func() bool {
		return strings.Contains(p.text("#alarms"), "Not refreshed since ")
	})
	p.find("l.lock") // what was known stays
	p.screenshot("gone")
}

// TestMonitor_Many: five thousand locks are all shown, and filtered.
func TestMonitor_Many(t *testing.T) {
	const many = 5000
	dir := t.TempDir()
	for i := range many {
		space := filepath.Join(dir, fmt.Sprintf("team-%02d", i%50))
		if err := os.MkdirAll(space, 0o700); err != nil {
			t.Fatal(err)
		}
		claim := fmt.Sprintf(`{"pid":%d,"created_at":"2999-01-02T03:04:05Z","cmd":"agent %d of a far machine","hostname":"elsewhere","boot_id":"b"}`, i+1, i)
		if err := os.WriteFile(filepath.Join(space, fmt.Sprintf("node-%d.lock", i)), []byte(claim), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := openMonitor(t, dir)
	eval[any](p.browser, `window.longest = 0;
		new PerformanceObserver(l => l.getEntries().forEach(e => window.longest = Math.max(window.longest, e.duration)))
			.observe({type: "longtask", buffered: true})`)
	eventually(t, "all rows are there", func() bool { return p.count() == many })
	t.Logf("all rows were there %.0f ms after the page was opened", eval[float64](p.browser, `return performance.now()`))
	loading := eval[float64](p.browser, `const l = window.longest; window.longest = 0; return l`)
	for range 2 {
		before := p.text("#fresh")
		eventually(t, "it has refreshed itself", func() bool { return p.text("#fresh") != before })
	}
	t.Logf("the page was busy for at most %.0f ms at a stretch when loading, %.0f ms when refreshing (0: less than 50)",
		loading, eval[float64](p.browser, `return window.longest`))
	p.screenshot("many")
	took := eval[float64](p.browser, `
		const filter = document.getElementById("filter"), began = performance.now();
		filter.value = "node-4321";
		filter.dispatchEvent(new Event("input"));
		document.body.offsetHeight; // lays it out
		return performance.now() - began`)
	t.Logf("filtering one of %d took %.1f ms", many, took)
	eventually(t, "one row is left", func() bool { return p.count() == 1 })
	if row := p.find("team-21/node-4321.lock"); row[0] != "unknown" || row[3] != "agent 4321 of a far machine" || !strings.HasPrefix(row[5], "in the future since ") {
		t.Errorf("it says %q", row)
	}
	p.filter("team-07")
	eventually(t, "the locks of one team are left", func() bool { return p.count() == many/50 })
	p.unfilter()
	eventually(t, "all rows are back", func() bool { return p.count() == many })
	p.find("team-49/node-4999.lock")
	if all := p.complaints(); len(all) > 0 {
		t.Errorf("the browser complains: %q", all)
	}
}
