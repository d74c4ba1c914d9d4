package tests

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// browser is a chromium, driven through chromedriver by the WebDriver protocol.
type browser struct {
	t       *testing.T
	session string // its address
	client  http.Client
}

// startBrowser starts a browser with a new, empty profile, which ends with the test.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	for _, name := range []string{"chromium", "chromedriver"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("needs %s: install chromium and chromium-driver", name)
		}
	}
	profile := must(os.MkdirTemp("", "holdfast-browser"))(t)
	driver := exec.Command("chromedriver", "--port=0")
	driver.Env = append(os.Environ(), "HOME="+profile)
	driver.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the browser's processes are in it too
	said := must(driver.StdoutPipe())(t)
	check(t, driver.Start())
	b := &browser{t: t, client: http.Client{Timeout: 2 * time.Minute}}
	t.Cleanup(func() {
		syscall.Kill(-driver.Process.Pid, syscall.SIGKILL)
		driver.Wait()
		// Its last processes may still be writing.
		eventually(t, "the profile is removed", func() bool { return os.RemoveAll(profile) == nil })
	})
	port := ""
	lines := bufio.NewScanner(said)
	for port == "" && lines.Scan() {
		if _, after, ok := strings.Cut(lines.Text(), "started successfully on port "); ok {
			port = strings.TrimSuffix(after, ".")
		}
	}
	if port == "" {
		t.Fatal("chromedriver did not say its port")
	}
	go io.Copy(io.Discard, said)
	root := "http://127.0.0.1:" + port + "/session"
	b.session = root
	started := b.call(http.MethodPost, "", map[string]any{"capabilities": map[string]any{"alwaysMatch": map[string]any{
		"browserName":        "chrome",
		"goog:loggingPrefs":  map[string]any{"browser": "ALL"},
		"goog:chromeOptions": map[string]any{"args": browserFlags(profile)},
	}}})
	b.session = ""
	var session struct {
		SessionID string `json:"sessionId"`
	}
	if err := json.Unmarshal(started, &session); err != nil || session.SessionID == "" {
		t.Fatalf("no browser: %s", started)
	}
	b.session = root + "/" + session.SessionID
	t.Cleanup(func() { b.call(http.MethodDelete, "", nil) }) // ends the browser
	return b
}

func browserFlags(profile string) []string {
	return []string{"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--disable-dev-shm-usage", // containers have little
		"--window-size=1400,900", "--user-data-dir=" + profile + "/profile"}
}

// call sends one command of the protocol, and returns the value it answers.
func (b *browser) call(method, command string, args any) json.RawMessage {
	b.t.Helper()
	var body []byte
	if method == http.MethodPost { // no other may have one
		var err error
		if body, err = json.Marshal(args); err != nil {
			b.t.Fatal(err)
		}
	}
	request := must(http.NewRequest(method, b.session+command, bytes.NewReader(body)))(b.t)
	answer := must(b.client.Do(request))(b.t)
	defer answer.Body.Close()
	var value struct {
		Value json.RawMessage `json:"value"`
	}
	check(b.t, json.NewDecoder(answer.Body).Decode(&value))
	if answer.StatusCode != http.StatusOK {
		b.t.Fatalf("%s %s: %s", method, command, value.Value)
	}
	return value.Value
}

func (b *browser) open(url string) {
	b.t.Helper()
	b.call(http.MethodPost, "/url", map[string]any{"url": url})
}

// eval runs the body of a function in the page, and returns what it returns.
func eval[T any](b *browser, script string, args ...any) (value T) {
	b.t.Helper()
	raw := b.call(http.MethodPost, "/execute/sync", map[string]any{"script": script, "args": append([]any{}, args...)})
	check(b.t, json.Unmarshal(raw, &value), script, "gives", raw)
	return value
}

// press sends keys to whatever has the focus, as a keyboard does.
func (b *browser) press(keys string) {
	b.t.Helper()
	var actions []any
	for _, key := range keys {
		for _, kind := range []string{"keyDown", "keyUp"} {
			actions = append(actions, map[string]any{"type": kind, "value": string(key)})
		}
	}
	b.call(http.MethodPost, "/actions", map[string]any{"actions": []any{
		map[string]any{"type": "key", "id": "keyboard", "actions": actions},
	}})
}

// resize gives the page this many pixels.
func (b *browser) resize(width, height int) {
	b.t.Helper()
	b.call(http.MethodPost, "/goog/cdp/execute", map[string]any{"cmd": "Emulation.setDeviceMetricsOverride",
		"params": map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}})
}

// complaints are the errors on the browser's console since the last call.
func (b *browser) complaints() (all []string) {
	b.t.Helper()
	var log []struct{ Level, Message string }
	check(b.t, json.Unmarshal(b.call(http.MethodPost, "/se/log", map[string]any{"type": "browser"}), &log))
	for _, entry := range log {
		if entry.Level == "SEVERE" {
			all = append(all, entry.Message)
		}
	}
	return all
}

// screenshotVar names a folder for pictures of the page; without it none is taken.
const screenshotVar = "HOLDFAST_TEST_SCREENSHOTS"

func (b *browser) screenshot(name string) {
	b.t.Helper()
	dir := os.Getenv(screenshotVar)
	if dir == "" {
		return
	}
	for _, scheme := range []string{"dark", "light"} {
		b.call(http.MethodPost, "/goog/cdp/execute", map[string]any{"cmd": "Emulation.setEmulatedMedia",
			"params": map[string]any{"features": []any{map[string]any{"name": "prefers-color-scheme", "value": scheme}}}})
		var encoded string
		check(b.t, json.Unmarshal(b.call(http.MethodGet, "/screenshot", nil), &encoded))
		picture, err := base64.StdEncoding.DecodeString(encoded)
		if err == nil {
			err = os.WriteFile(fmt.Sprintf("%s/%s-%s.png", dir, name, scheme), picture, 0o600)
		}
		check(b.t, err)
	}
}
