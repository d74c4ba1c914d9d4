package pg_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestReadmeProgram: the README's line for a database, put in the place of the one beside it,
// as it is: with a database it works, and without one it ends with an error.
func TestReadmeProgram(t *testing.T) {
	goes, err := exec.LookPath("go")
	if err != nil {
		t.Skip("needs go, to build the README's program")
	}
	readme := must(os.ReadFile("../../README.md"))(t)
	line := regexp.MustCompile(`(?m)^\t.* // or: (.*pg\.Open\(.*)$`)
	var program string
	for _, block := range regexp.MustCompile("(?ms)^```go\n(.*?)^```").FindAllStringSubmatch(string(readme), -1) {
		if line.MatchString(block[1]) {
			program = line.ReplaceAllString(block[1], "\t$1")
		}
	}
	const module, where = `"github.com/holdfast-go/holdfast/lock"`, "host=db dbname=app"
	for old, new := range map[string]string{module: module + "\n\t" + strings.TrimSuffix(module, `"`) + `/pg"`, `"` + where + `"`: `os.Getenv("CONN")`, `"log"`: "\"log\"\n\t\"os\""} {
		if strings.Count(program, old) != 1 {
			t.Fatalf("README.md has no program with %s, and a line for a database:\n%s", old, program)
		}
		program = strings.Replace(program, old, new, 1)
	}
	dir := t.TempDir()
	file, binary := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
	check(t, os.WriteFile(file, []byte(program), 0o600))
	if out, err := exec.Command(goes, "build", "-o", binary, file).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for conn, works := range map[string]bool{server.Conn(): true, "host=" + dir + " dbname=app": false} {
		cmd := exec.CommandContext(limited(t), binary)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "CONN="+conn)
		var said bytes.Buffer
		cmd.Stderr = &said
		out, err := cmd.Output()
		var exit *exec.ExitError
		switch {
		case works && (err != nil || !strings.Contains(string(out), "holding agent/42 with fence ")):
			t.Errorf("with a database: %v, it says %q, %q", err, out, said.String())
		case !works && (!errors.As(err, &exit) || exit.ExitCode() != 1 || strings.Contains(said.String(), "panic") || !strings.Contains(said.String(), "pg: open: ")):
			t.Errorf("without: %v, it says %q, %q", err, out, said.String())
		}
	}
}
