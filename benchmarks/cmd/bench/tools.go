//go:build linux

package main

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// scripts are the agents for peers outside Go.
//
//go:embed peers
var scripts embed.FS

// flockTool takes a lock as shell scripts do: a descriptor of its own, which flock(1)
// is given to lock and which keeps the lock when that process has gone.
func flockTool(path string) (func() error, error)       { return flockBy(path, "-x") }
func flockToolShared(path string) (func() error, error) { return flockBy(path, "-s") }

func flockBy(path, how string) (func() error, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("flock", how, "3")
	cmd.ExtraFiles = []*os.File{file}
	if out, err := cmd.CombinedOutput(); err != nil {
		file.Close()
		return nil, fmt.Errorf("flock(1): %w %s", err, out)
	}
	return file.Close, nil
}

// scriptFolder has the scripts, and what they need; main removes it at the end.
var scriptFolder = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "bench-peers")
	if err != nil {
		return "", err
	}
	inside, err := fs.Sub(scripts, "peers")
	if err != nil {
		return "", err
	}
	return dir, os.CopyFS(dir, inside)
})

// removeScripts makes the folder if nobody has, to remove it then.
func removeScripts() {
	if dir, err := scriptFolder(); err == nil {
		os.RemoveAll(dir)
	}
}

// findProper installs proper-lockfile, pinned by the lock file beside its script.
var findProper = sync.OnceValue(func() string {
	for _, tool := range []string{"node", "npm"} {
		if why := inPath(tool)(); why != "" {
			return why
		}
	}
	dir, err := scriptFolder()
	if err != nil {
		return err.Error()
	}
	cmd := exec.Command("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error")
	cmd.Dir, cmd.WaitDelay = dir, time.Second
	stop := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	defer stop.Stop()
	if out, err := cmd.CombinedOutput(); err != nil {
		first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
		return fmt.Sprintf("npm could not install it: %v: %s", err, first)
	}
	return ""
})

func properVersion() string {
	dir, err := scriptFolder()
	if err != nil {
		return "unknown"
	}
	text, err := os.ReadFile(filepath.Join(dir, "node_modules/proper-lockfile/package.json"))
	var pkg struct{ Version string }
	if err != nil || json.Unmarshal(text, &pkg) != nil {
		return "unknown"
	}
	return pkg.Version + ", node " + toolVersion("node", "--version")()
}
