package tests

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestRules: RULES.md has every rule that ARCHITECTURE.md has, by its letter, number or
// name, and every test that it names is there.
func TestRules(t *testing.T) {
	text := repositoryFile(t, "tests/RULES.md")
	tests := allTests(t)
	named := regexp.MustCompile("`((?:Test|Fuzz)?[A-Z]\\w*(?:/\\w+)?)`").FindAllStringSubmatch(text, -1)
	if len(named) < 100 {
		t.Fatalf("found only %d tests", len(named))
	}
	for _, n := range named {
		if name := n[1]; !tests[name] && (strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz") || strings.Contains(name, "/")) {
			t.Errorf("there is no test %s", name)
		}
	}

	// The rows of RULES.md begin with the rule.
	has := func(rule string) {
		t.Helper()
		if !strings.Contains(text, "\n| "+rule+":") {
			t.Errorf("no row is of %q", rule)
		}
	}
	page := repositoryFile(t, "ARCHITECTURE.md")
	for what, rules := range map[string]*regexp.Regexp{
		"lettered rule": regexp.MustCompile(`(?m)^- \*\*([A-Z])\.\*\* `),
		"step":          regexp.MustCompile(`(?m)^\| ([a-z]+|\d) \| .* \| \[`),
		"rung":          regexp.MustCompile(`(?m)^\| (\d) \| .* \| (?:alive|dead|unknown)`),
	} {
		found := rules.FindAllStringSubmatch(page, -1)
		if len(found) < 2 {
			t.Fatalf("found %d of %s", len(found), what)
		}
		for _, rule := range found {
			if what != "rung" {
				has(rule[1])
				continue
			}
			has("rung " + rule[1])
			if rule[1] != "7" && !strings.Contains(repositoryFile(t, "lock/evidence/ladder_test.go"), "\n\t\t{\""+rule[1]+" ") {
				t.Errorf("TestLadder has no row of rung %s", rule[1])
			}
		}
	}
}

// allTests are all that can be named: tests, those of the conformance suite with their
// group, and scripts.
func allTests(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name := entry.Name()
		if script, is := strings.CutSuffix(name, ".txtar"); is {
			all["TestScript/"+script] = true
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, f := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`).FindAllStringSubmatch(string(data), -1) {
			all[f[1]] = strings.HasSuffix(name, "_test.go")
		}
		if strings.HasSuffix(filepath.ToSlash(filepath.Dir(path)), "lock/locktest") {
			for _, group := range regexp.MustCompile(`(?ms)^var (\w+)Tests = \[\]test\{\n(.*?)^\}`).FindAllStringSubmatch(string(data), -1) {
				for _, test := range regexp.MustCompile(`(?m)^\t\{"(\w+)", `).FindAllStringSubmatch(group[2], -1) {
					all[strings.ToUpper(group[1][:1])+group[1][1:]+"/"+test[1]] = true
				}
			}
		}
		return nil
	})
	check(t, err)
	return all
}
