package tests

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var updateFlag = flag.Bool("update", false, "print the tests in RULES.md anew")

// What begins a test, and what it says that it guards.
var (
	aTest  = regexp.MustCompile(`^func ((?:Test|Fuzz)\w+)\(`)
	aGroup = regexp.MustCompile(`^var (\w+)Tests = \[\]test\{`)
	ofIt   = regexp.MustCompile(`^\t\{"(\w+)", `)
	guards = regexp.MustCompile(`(?:^#|//) guards: (.*)$`)
	aRule  = regexp.MustCompile(`(?m)^\| ([A-Z]\d+) \| (.*) \| .* \|$`)
)

// TestRules: the tests in RULES.md are those that say so. Every rule of ARCHITECTURE.md is there,
// and each has a guard.
func TestRules(t *testing.T) {
	tests, of := guardingTests(t)
	rules := repositoryFile(t, "tests/RULES.md")
	page := aRule.ReplaceAllStringFunc(rules, func(line string) string {
		row := aRule.FindStringSubmatch(line)
		id, text := row[1], row[2]
		if len(of[id]) == 0 {
			t.Errorf("no test guards %s: %s", id, text)
		}
		slices.Sort(of[id])
		by := strings.Join(slices.Compact(of[id]), "`, `")
		delete(of, id) // and a second rule of this name has none
		return fmt.Sprintf("| %s | %s | `%s` |", id, text, by)
	})
	for id, by := range of {
		t.Errorf("%s guard %s, which is no rule", by, id)
	}
	for _, n := range regexp.MustCompile("`(Test[A-Z]\\w*)`").FindAllStringSubmatch(rules, -1) {
		if !tests[n[1]] {
			t.Errorf("there is no test %s", n[1])
		}
	}
	if *updateFlag {
		check(t, os.WriteFile("RULES.md", []byte(page), 0o644))
	} else if page != rules {
		t.Error("RULES.md is not what the tests say: go test -run TestRules -update .")
	}

	architecture := repositoryFile(t, "ARCHITECTURE.md")
	for in, begins := range map[*regexp.Regexp]string{
		regexp.MustCompile(`(?m)^- \*\*([A-Z])\.\*\* `):                    `%s1 \| `,
		regexp.MustCompile(`(?m)^\| ([a-z]+|\d) \| .* \| \[`):              `S\d+ \| %s: `,
		regexp.MustCompile(`(?m)^\| (\d) \| .* \| (?:alive|dead|unknown)`): `E%s \| `,
	} {
		found := in.FindAllStringSubmatch(architecture, -1)
		if len(found) < 2 {
			t.Fatalf("found %d of %s", len(found), in)
		}
		for _, rule := range found {
			if !regexp.MustCompile(`(?m)^\| ` + fmt.Sprintf(begins, rule[1])).MatchString(rules) {
				t.Errorf("no rule is of %q", rule[0])
			}
			if begins[0] == 'E' && rule[1] != "7" && !strings.Contains(repositoryFile(t, "lock/evidence/ladder_test.go"), "\n\t\t{\""+rule[1]+" ") {
				t.Errorf("TestLadder has no row of rung %s", rule[1])
			}
		}
	}
}

// guardingTests are all tests, those of the conformance suite with their group, and scripts; and
// which of them guard each rule.
func guardingTests(t *testing.T) (all map[string]bool, of map[string][]string) {
	t.Helper()
	all, of = map[string]bool{}, map[string][]string{}
	check(t, filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		file := entry.Name()
		script, isScript := strings.CutSuffix(file, ".txtar")
		isSuite := filepath.Base(filepath.Dir(path)) == "locktest" && strings.HasSuffix(file, ".go")
		if err != nil || entry.IsDir() || !isScript && !isSuite && !strings.HasSuffix(file, "_test.go") {
			return err
		}
		data, err := os.ReadFile(path)
		group := ""
		for line := range strings.Lines(string(data)) {
			line, name := strings.TrimSuffix(line, "\n"), ""
			if f := aGroup.FindStringSubmatch(line); f != nil {
				group = strings.ToUpper(f[1][:1]) + f[1][1:] + "/"
			} else if f := aTest.FindStringSubmatch(line); f != nil {
				name = f[1]
			} else if f := ofIt.FindStringSubmatch(line); f != nil && isSuite {
				name = group + f[1]
			} else if isScript {
				name = "TestScript/" + script
			}
			all[name] = true
			if g := guards.FindStringSubmatch(line); g != nil && name == "" {
				t.Errorf("%s: no test begins here: %s", path, line)
			} else if g != nil {
				for _, id := range strings.Split(g[1], ", ") {
					of[id] = append(of[id], name)
				}
			}
		}
		return err
	}))
	return all, of
}
