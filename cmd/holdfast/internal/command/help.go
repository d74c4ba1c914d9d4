package command

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/spf13/cobra"
)

// help is a screen about a command: 32 lines of 80 columns.
func help(c *cobra.Command) string {
	var b strings.Builder
	screen := c.Annotations[screenOf]
	if screen == "" {
		screen = c.Short // of a command that cobra makes
	}
	fmt.Fprintf(&b, "usage: %s\n\n%s\n", c.UseLine(), wrapped(screen))
	if c.HasAvailableSubCommands() {
		b.WriteByte('\n')
		for _, s := range c.Commands() {
			if s.IsAvailableCommand() || s.Name() == "help" {
				fmt.Fprintf(&b, "  %-10s %s\n", s.Name(), s.Short)
			}
		}
	}
	if c.HasAvailableLocalFlags() {
		fmt.Fprintf(&b, "\n%s", c.LocalFlags().FlagUsages())
	}
	if c.Example != "" {
		fmt.Fprintf(&b, "\nexamples:\n  %s\n%s\n", strings.ReplaceAll(c.Example, "\n", "\n  "), wrapped("exit codes: "+c.Annotations[codesOf]))
	}
	return b.String()
}

// wrapped breaks a text into lines of 80 columns.
func wrapped(text string) string {
	var b strings.Builder
	column := 0
	for _, word := range strings.Fields(text) {
		if column > 0 && column+1+len(word) > 80 {
			b.WriteByte('\n')
			column = 0
		} else if column > 0 {
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String()
}

// completeLock completes LOCK to the locks in a folder, with who has them.
func completeLock(c *cobra.Command, args []string, begins string) (all []cobra.Completion, how cobra.ShellCompDirective) {
	if len(args) > 0 && c.Annotations[stopsAtLock] != "" || c.Flags().Changed("pg") || c.Flags().Changed("etcd") {
		return nil, cobra.ShellCompDirectiveDefault
	}
	ctx, cancel := context.WithTimeout(c.Context(), lookPatience)
	defer cancel()
	folder, name := filepath.Split(begins)
	entries, _ := os.ReadDir(filepath.Join(".", folder))
	seen := map[string]bool{}
	for _, e := range entries {
		path, isQueue := strings.CutSuffix(folder+e.Name(), ".flock")
		if !strings.HasPrefix(e.Name(), name) || seen[path] || !isQueue && filepath.Ext(path) != ".lock" || path != visible(path) {
			continue
		}
		seen[path] = true
		says := "free"
		if s, err := (lock.File{Path: path}).Inspect(ctx); err != nil || s.Evidence == evidence.NotALockFile {
			continue
		} else if s.State != evidence.Free {
			_, who := fileWords.holder(s)
			says = string(s.State) + ": " + who
		}
		all = append(all, cobra.CompletionWithDesc(path, says))
	}
	return all, cobra.ShellCompDirectiveDefault
}

// version prints which holdfast this is, as the Go tool recorded it.
func (a *app) version(asJSON bool) (int, error) {
	v := struct {
		Version string `json:"version"`
		Go      string `json:"go"`
		OS      string `json:"os"`
		Arch    string `json:"arch"`
	}{"(unknown)", runtime.Version(), runtime.GOOS, runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	if asJSON {
		return a.print(v), nil
	}
	fmt.Fprintf(a.stdout, "holdfast %s %s %s/%s\n", v.Version, v.Go, v.OS, v.Arch)
	return exitOK, nil
}
