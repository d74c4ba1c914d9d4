package command

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/evidence"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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
				fmt.Fprintf(&b, "  %-9s %s\n", s.Name(), s.Short)
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

func jsonFlag(c *cobra.Command) *bool {
	return c.Flags().Bool("json", false, "print JSON, a line for each")
}

// durationFlag adds a flag for a span of time.
func durationFlag(flags *pflag.FlagSet, p *time.Duration, name, short, usage string) {
	flags.FuncP(name, short, usage, func(text string) (err error) {
		*p, err = span(text)
		return err
	})
}

// span reads a span of time: seconds, or as package time has it, or days.
func span(text string) (time.Duration, error) {
	number, unit := strings.CutSuffix(text, "d")
	seconds, err := strconv.ParseFloat(number, 64)
	if unit {
		seconds *= 24 * 60 * 60
	}
	d := time.Duration(seconds * float64(time.Second))
	if err != nil || strings.Trim(number, "+-.0123456789") != "" {
		if d, err = time.ParseDuration(text); err != nil {
			return 0, errors.New("it is no span of time, such as 90, 10m, 1h30m or 7d")
		}
	}
	switch {
	case d < 0 || seconds < 0:
		return 0, errors.New("it is negative")
	case seconds > math.MaxInt64/float64(time.Second):
		return 0, errors.New("it is too long")
	}
	return d, nil
}

// oneLock returns the one LOCK among the arguments of a command, which may be in a database.
func oneLock(args []string, e *engines) (string, error) {
	name, err := oneOf(args, "LOCK", "")
	if err == nil {
		err = e.wrongName(name)
	}
	return name, err
}

// oneOf returns the one argument of a command, or what stands for it.
func oneOf(args []string, what, without string) (string, error) {
	switch {
	case len(args) == 1:
		return args[0], nil
	case len(args) > 1:
		return "", misused("one %s is wanted, not %d", what, len(args))
	case without == "":
		return "", misused("%s is missing", what)
	}
	return without, nil
}

// noLock says why there can't be a lock at a path: nil unless a folder is there. No holder
// put the folder there, and it won't go away by itself, so it was a slip.
func noLock(path string) error {
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return nil
	}
	return misused("%s is a folder; LOCK is the path of a lock file, such as %s", visible(path), visible(filepath.Join(path, "deploy.lock")))
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
