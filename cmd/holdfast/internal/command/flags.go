package command

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// unknown says that a word is no command, and which was meant.
func unknown(c *cobra.Command, word string) error {
	name := strings.TrimPrefix(strings.TrimPrefix(c.CommandPath()+" ", "holdfast ")+visible(word), " ")
	return misused("%s is not a command of holdfast%s", name, didYouMean(c.SuggestionsFor(word), c.CommandPath()+" "))
}

func didYouMean(names []string, before string) string {
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("; did you mean \"%s%s\"?", before, strings.Join(names, "\", or \""+before))
}

// flagError is what is wrong with the flags of a call.
func flagError(c *cobra.Command, err error) string {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return visible(err.Error())
	}
	name, dashes := unknown.GetSpecifiedName(), "--"
	if short := unknown.GetSpecifiedShortnames(); short != "" {
		name, dashes = short, "-"
	}
	words := &cobra.Command{SuggestionsMinimumDistance: 2} // cobra knows commands alone
	c.Flags().VisitAll(func(f *pflag.Flag) {
		words.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
	})
	return "unknown flag " + dashes + visible(name) + didYouMean(words.SuggestionsFor(name), "--")
}

// singleDash finds a long flag that has one dash, as all had once. pflag would take its letters
// for short flags, and -shared for a wish for help.
func singleDash(root *cobra.Command, args []string) (*cobra.Command, error) {
	c, args, err := root.Find(args)
	if err != nil || c.DisableFlagParsing {
		return root, nil
	}
	for i := 0; i < len(args) && args[i] != "--"; i++ {
		dashes := len(args[i]) - len(strings.TrimLeft(args[i], "-"))
		name, _, hasValue := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		flag := c.Flags().Lookup(name)
		switch {
		case dashes == 0 && c.Annotations[stopsAtLock] != "":
			return c, nil // all that follows is the command's
		case dashes == 1 && len(name) > 1 && flag != nil:
			return c, misused("-%s has two dashes: --%[1]s", name)
		case dashes == 1 && len(name) == 1:
			flag = c.Flags().ShorthandLookup(name)
		}
		if dashes > 0 && flag != nil && flag.NoOptDefVal == "" && !hasValue {
			i++ // its value
		}
	}
	return c, nil
}

// stopsAtLock marks commands whose flags end with their first argument.
const stopsAtLock = "stops"

func stopAtLock(c *cobra.Command) {
	c.Annotations[stopsAtLock] = "yes"
	c.Flags().SetInterspersed(false)
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
