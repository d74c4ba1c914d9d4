package command

import (
	"path/filepath"
	"strings"
	"unicode"
)

// maxWord bounds the words of a command that others are shown.
const maxWord = 40

// label is what the lock file tells others of a command that was given no label: its name,
// and its first argument if that can't hold a secret. Others see it in status, on the page
// and in messages. A password in it would be known to all of them, and a word too few harms
// nobody. "…" stands for what is left out.
func label(command []string) string {
	name := filepath.Base(command[0])
	if !isName(name) {
		return "a command"
	}
	rest := command[1:]
	if len(rest) > 0 && isHarmless(rest[0]) {
		name += " " + rest[0]
		rest = rest[1:]
	}
	if len(rest) > 0 {
		name += " …"
	}
	return name
}

// isName reports whether a text is the name of a program, and not something that was meant
// to come before one (NAME=VALUE, user:password@host).
func isName(s string) bool {
	return len(s) <= maxWord && !strings.ContainsFunc(s, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._+-", r)
	})
}

// isHarmless reports whether an argument can't hold a secret: it is words, or a flag
// without a value. NAME=VALUE and a URL are not (= and : and @), nor is -pSECRET (a short
// flag is one letter). Nor is what looks like a token: with digits, with letters of both
// cases in one word, or with a word longer than people's are.
func isHarmless(arg string) bool {
	switch {
	case arg == "" || len(arg) > maxWord:
		return false
	case strings.HasPrefix(arg, "--"):
		arg = arg[2:]
	case strings.HasPrefix(arg, "-"):
		return len(arg) == 2 && isWord(arg[1:])
	}
	words := strings.FieldsFunc(arg, func(r rune) bool { return strings.ContainsRune("-_./", r) })
	for _, word := range words {
		if !isWord(word) {
			return false
		}
	}
	return len(words) > 0
}

// isWord reports whether a text is letters only, as people write a word.
func isWord(s string) bool {
	const longest = 16
	tail := strings.TrimLeftFunc(s, unicode.IsUpper)
	capitals := len(s) - len(tail)
	return len(s) <= longest && strings.IndexFunc(tail, func(r rune) bool { return !unicode.IsLower(r) }) < 0 &&
		(tail == "" || capitals <= 1)
}
