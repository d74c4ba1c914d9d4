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
	"time"

	"github.com/holdfast-go/holdfast/internal/testkit"
)

// startServe starts "holdfast serve", and returns the page's address.
func startServe(t *testing.T, dirs ...string) string {
	t.Helper()
	cmd := exec.Command(holdfast, append([]string{"serve", "--json"}, dirs...)...)
	cmd.Stderr = os.Stderr
	out := must(cmd.StdoutPipe())(t)
	background(t, cmd)
	line := must(bufio.NewReader(out).ReadBytes('\n'))(t)
	var at struct {
		URL string `json:"url"`
	}
	check(t, json.Unmarshal(line, &at))
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
	check(t, os.MkdirAll(filepath.Join(dir, "jobs"), 0o700))
	check(t, os.Mkdir(other, 0o700))
	const hostile = "<img src=x onerror=\"window.robbed=1\">\u202e<script>window.robbed=1</script>"
	holder := exec.Command(holdfast, "run", "--label", hostile, filepath.Join(dir, "held.lock"), "--", "sleep", "1000")
	background(t, holder)
	dead := startMember(t, filepath.Join(dir, "jobs", "dead.lock"))
	dead.Do("acquire", "held")
	dead.Kill()
	first, second := startMember(t, filepath.Join(dir, "jobs", "wanted.lock")), startMember(t, filepath.Join(dir, "jobs", "wanted.lock"))
	first.Do("acquire", "held")
	second.Do("acquire", "waiting")
	elsewhere := startMember(t, filepath.Join(other, "elsewhere.lock"))
	elsewhere.Do("acquire", "held")
	pid := func(m *testkit.Child) string { return strconv.Itoa(m.Cmd.Process.Pid) }

	p := openMonitor(t, dir, other)
	loaded := eval[float64](p.browser, `return performance.timeOrigin`)

	row := p.find("held.lock", "held", strconv.Itoa(holder.Process.Pid))
	shown := strings.ReplaceAll(hostile, "\u202e", `\u{202e}`)
	equal(t, row[3], shown, "the holder is shown as")
	host, _ := os.Hostname()
	if row[4] != host || row[6] != "exclusive" || row[7] == "" || row[8] != dir || !strings.Contains(row[5], "since") {
		t.Errorf("of the holder the page says %q", row)
	}
	p.find("dead", "jobs/dead.lock", pid(dead), "member")
	p.find("held", "jobs/wanted.lock", pid(first))
	waiting := p.find("waiting", "jobs/wanted.lock", pid(second), "waits for pid "+pid(first))
	equal(t, waiting[0], "waiting", "who waits is shown as")
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
	equal(t, p.text("#shown"), "2 of 5 shown", "of the filter it says")
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
	first.Do("release", "released")
	second.Expect("held")
	p.find("held", "jobs/wanted.lock", pid(second))
	eventually(t, "the former holder's row disappears", func() bool {
		return !slices.ContainsFunc(p.rows(), func(r []string) bool { return r[2] == pid(first) })
	})
	second.Do("release", "released")
	eventually(t, "its row disappears", func() bool { return p.count() == 3 })

	// An engine that is out of reach, and back.
	check(t, os.Rename(other, other+".gone"))
	eventually(t, "the engine is said to be out of reach", func() bool {
		said := p.text("#alarms")
		return strings.Contains(said, other) && strings.Contains(said, "can't be read in full") && strings.Contains(said, "no such file")
	})
	p.find("held.lock")
	p.screenshot("unreachable")
	check(t, os.Rename(other+".gone", other))
	p.find("elsewhere.lock")
	eventually(t, "the alarm ends", func() bool { return p.text("#alarms") == "" })

	equal(t, eval[float64](p.browser, `return performance.timeOrigin`), loaded, "the page was loaded again")
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
	m.Do("acquire", "held")
	cmd := exec.Command(holdfast, "serve", dir)
	out := must(cmd.StdoutPipe())(t)
	background(t, cmd)
	line := must(bufio.NewReader(out).ReadString('\n'))(t)
	b.open(strings.TrimSpace(strings.TrimPrefix(line, "listening on ")))
	p := page{b}
	p.find("l.lock")
	check(t, cmd.Process.Signal(syscall.SIGTERM))
	eventually(t, "it says that it is not refreshed", func() bool {
		return strings.Contains(p.text("#alarms"), "Not refreshed since ")
	})
	p.find("l.lock") // what was known stays
	if title := eval[string](b, `return document.title`); !strings.HasPrefix(title, "✕ not refreshed – ") || !strings.HasSuffix(title, dir) {
		t.Errorf("the title is %q", title)
	}
	p.screenshot("gone")
}

// TestMonitor_ServerGoneUnseen: a tab that is not looked at says so too, in its title.
func TestMonitor_ServerGoneUnseen(t *testing.T) {
	b := startBrowser(t)
	cmd := exec.Command(holdfast, "serve", "--json", t.TempDir())
	out := must(cmd.StdoutPipe())(t)
	background(t, cmd)
	var at struct {
		URL string `json:"url"`
	}
	check(t, json.NewDecoder(out).Decode(&at))
	b.open(at.URL)
	eventually(t, "the page is there", func() bool { return strings.HasPrefix(eval[string](b, `return document.title`), "0 held") })
	eval[any](b, `Object.defineProperty(document, "hidden", {get: () => true}); document.dispatchEvent(new Event("visibilitychange"))`)
	check(t, cmd.Process.Signal(syscall.SIGTERM))
	eventually(t, "the title says it", func() bool {
		return strings.HasPrefix(eval[string](b, `return document.title`), "✕ not refreshed")
	})
}

// claimFrom writes a claim of another machine, of which nothing can be told.
func claimFrom(t *testing.T, path, label string, age time.Duration) {
	t.Helper()
	claim := fmt.Sprintf(`{"holdfast":1,"released":false,"pid":1234567,"created_at":%q,"cmd":%q,"nonce":"N0NCE","hostname":"build-17","boot_id":"b","stale_after":17280000000000000}`,
		time.Now().Add(-age).Format(time.RFC3339), label)
	check(t, os.WriteFile(path, []byte(claim), 0o600))
}

// TestMonitor_Layout: at each width one sees, uncut, who holds what, since when and on
// what evidence; and an open row says all, and what to do.
func TestMonitor_Layout(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	check(t, os.Mkdir(filepath.Join(dir, "jobs"), 0o700))
	far := filepath.Join(dir, "jobs", "nightly.lock")
	claimFrom(t, far, "rsync -a /srv/data backup:/srv", 47*time.Hour+59*time.Minute)
	claimFrom(t, filepath.Join(dir, "deploy.lock"), "deploy production", 100*24*time.Hour+23*time.Hour)
	claimFrom(t, filepath.Join(dir, "ahead.lock"), "deploy staging", -49*time.Hour)
	bare := fmt.Sprintf(`{"pid":%d,"created_at":%q}`, os.Getpid(), time.Now().Add(-time.Hour).Format(time.RFC3339))
	if err := os.WriteFile(filepath.Join(dir, "bare.lock"), []byte(bare), 0o600); err != nil {
		t.Fatal(err) // its evidence is a long one
	}
	m := startMember(t, filepath.Join(dir, "held.lock"))
	m.Do("acquire", "held")
	waits := startMember(t, filepath.Join(dir, "held.lock"))
	waits.Do("acquire", "waiting")
	dead := startMember(t, filepath.Join(dir, "dead.lock"))
	dead.Do("acquire", "held")
	dead.Kill()
	host := must(os.Hostname())(t)
	for _, c := range []struct {
		name string
		dirs []string
	}{{"one", []string{dir}}, {"two", []string{dir, other}}} {
		p := openMonitor(t, c.dirs...)
		p.find("waiting")
		eventually(t, "all rows are there", func() bool { return p.count() == 7 })
		if title, want := eval[string](p.browser, `return document.title`), host+": "+strings.Join(c.dirs, ", "); !strings.HasSuffix(title, want) {
			t.Errorf("the title is %q, want %q in it", title, want)
		}
		if got := p.text("header"); !strings.Contains(got, host) || !strings.Contains(got, dir) {
			t.Errorf("at the top it says %q", got)
		}
		for _, width := range []int{1300, 1251, 1250, 800, 701, 700, 360} {
			p.resize(width, 800)
			if got := eval[int](p.browser, `return document.documentElement.scrollWidth`); got > width {
				t.Errorf("at %d px the page is %d px wide", width, got)
			}
			for _, cut := range eval[[]string](p.browser, `return [...document.querySelectorAll("#rows td")].filter(td => {
				const box = td.getBoundingClientRect();
				return td.matches(".state, .lock, .pid, .holder, .for, .mode, .evidence") && td.textContent &&
					(td.scrollWidth > td.clientWidth || box.width < 20 || box.right > innerWidth || box.left < 0);
			}).map(td => td.className + ": " + td.textContent)`) {
				t.Errorf("at %d px, %s folder: cut: %s", width, c.name, cut)
			}
			p.screenshot(fmt.Sprintf("%s-%d", c.name, width))
		}
		eval[any](p.browser, `document.querySelectorAll("th button")[4].click()`) // by host: build-17's are together
		eval[any](p.browser, `[...document.querySelectorAll("#rows button")].find(b => b.textContent === "jobs/nightly.lock").click()`)
		got := eval[string](p.browser, `return document.querySelector(".more").textContent`)
		for _, want := range []string{far, "N0NCE", "holdfast break --force N0NCE " + far, "if you know"} {
			that(t, strings.Contains(got, want), "an open row says %q, want %q in it", got, want)
		}
		for _, width := range []int{1300, 800, 360} {
			p.resize(width, 800)
			if got := eval[int](p.browser, `return document.documentElement.scrollWidth`); got > width {
				t.Errorf("at %d px, with an open row, the page is %d px wide", width, got)
			}
			p.screenshot(fmt.Sprintf("%s-open-%d", c.name, width))
		}
		if all := p.complaints(); len(all) > 0 {
			t.Errorf("the browser complains: %q", all)
		}
	}
}

// TestMonitor_Keyboard: the table is one stop of Tab, and arrow keys lead through it.
func TestMonitor_Keyboard(t *testing.T) {
	const tab, up, down, end, enter, right = "\ue004", "\ue013", "\ue015", "\ue010", "\ue007", "\ue014"
	dir := t.TempDir()
	for _, name := range []string{"a.lock", "b.lock", "c.lock"} {
		claimFrom(t, filepath.Join(dir, name), "far away", time.Hour)
	}
	p := openMonitor(t, dir)
	eventually(t, "all rows are there", func() bool { return p.count() == 3 })
	at := func(want string) {
		t.Helper()
		if got := eval[string](p.browser, `return document.activeElement.textContent`); got != want {
			t.Fatalf("the focus is on %q, want %q", got, want)
		}
	}
	p.filter("lock") // leads to the filter, too
	p.press(tab)
	at("a.lock")
	p.press(down + down)
	at("c.lock")
	p.press(down) // there is no further one
	at("c.lock")
	if n := eval[int](p.browser, `return [...document.querySelectorAll("#table button")].filter(b => b.tabIndex >= 0).length`); n != 1 {
		t.Errorf("the table has %d tab stops", n)
	}
	p.press(up + enter)
	at("b.lock")
	if open := eval[string](p.browser, `return document.activeElement.getAttribute("aria-expanded")`); open != "true" {
		t.Errorf("Enter does not open the row: %q", open)
	}
	p.press(up + up)
	at("Lock")
	p.press(right + enter)
	at("PID")
	equal(t, eval[string](p.browser, `return document.querySelectorAll("th")[2].getAttribute("aria-sort")`), "ascending", "Enter sorts")
	p.press(end)
	at("Evidence") // Engine is not shown
	p.press(down + down)
	at("b.lock")

	// The row with the focus goes: the next one has it. The last one goes: the one before.
	check(t, os.Remove(filepath.Join(dir, "b.lock")))
	eventually(t, "its row disappears", func() bool { return p.count() == 2 })
	at("c.lock")
	check(t, os.Remove(filepath.Join(dir, "c.lock")))
	eventually(t, "its row disappears", func() bool { return p.count() == 1 })
	at("a.lock")

	// Tab leads on, and back to where one was.
	p.press(tab)
	if in := eval[bool](p.browser, `return document.activeElement.closest("#table") !== null`); in {
		t.Error("Tab does not lead out of the table")
	}
}

// TestMonitor_Unchanged: what has not changed is not sent again, and grows older all the
// same.
func TestMonitor_Unchanged(t *testing.T) {
	dir := t.TempDir()
	claimFrom(t, filepath.Join(dir, "l.lock"), "far away", time.Minute)
	p := openMonitor(t, dir)
	before := p.find("l.lock")[5]
	eventually(t, "it grows older", func() bool { return p.find("l.lock")[5] != before })
	eventually(t, "it has refreshed itself thrice", func() bool {
		return eval[int](p.browser, `return performance.getEntriesByType("resource").filter(e => e.name.endsWith("/api/advisory-locks")).length`) >= 4
	})
	sent := eval[[]int](p.browser, `return performance.getEntriesByType("resource").filter(e => e.name.endsWith("/api/advisory-locks")).map(e => e.responseStatus)`)
	if sent[0] != 200 || slices.ContainsFunc(sent[1:], func(status int) bool { return status != 304 }) {
		t.Errorf("the answers were %v", sent)
	}
	if all := p.complaints(); len(all) > 0 {
		t.Errorf("the browser complains: %q", all)
	}
}

// TestMonitor_Many: thousands of locks are all shown, and filtered.
func TestMonitor_Many(t *testing.T) {
	const many = 2000
	dir := t.TempDir()
	for i := range many {
		space := filepath.Join(dir, fmt.Sprintf("team-%02d", i%50))
		check(t, os.MkdirAll(space, 0o700))
		claim := fmt.Sprintf(`{"pid":%d,"created_at":"2999-01-02T03:04:05Z","cmd":"agent %d of a far machine","hostname":"elsewhere","boot_id":"b"}`, i+1, i)
		check(t, os.WriteFile(filepath.Join(space, fmt.Sprintf("node-%d.lock", i)), []byte(claim), 0o600))
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
		filter.value = "node-1321";
		filter.dispatchEvent(new Event("input"));
		document.body.offsetHeight; // lays it out
		return performance.now() - began`)
	t.Logf("filtering one of %d took %.1f ms", many, took)
	eventually(t, "one row is left", func() bool { return p.count() == 1 })
	if row := p.find("team-21/node-1321.lock"); row[0] != "unknown" || row[3] != "agent 1321 of a far machine" || !strings.HasPrefix(row[5], "in the future since ") {
		t.Errorf("it says %q", row)
	}
	p.filter("team-07")
	eventually(t, "the locks of one team are left", func() bool { return p.count() == many/50 })
	p.unfilter()
	eventually(t, "all rows are back", func() bool { return p.count() == many })
	p.find("team-49/node-1999.lock")
	if all := p.complaints(); len(all) > 0 {
		t.Errorf("the browser complains: %q", all)
	}
}
