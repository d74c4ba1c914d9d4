package command

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testkit"
)

// TestAsFlock: who types what flock(1) takes gets what flock(1) does. FREE, HELD and SHARED are
// locks of the program that is tried, each held by itself; the exit codes without -E differ.
func TestAsFlock(t *testing.T) {
	flock, err := exec.LookPath("flock")
	if err != nil {
		t.Skip("needs flock(1), to stand beside it: ", err)
	}
	dir := t.TempDir()
	programs := map[string]func(args ...string) *exec.Cmd{
		"flock":    func(args ...string) *exec.Cmd { return exec.Command(flock, args...) },
		"holdfast": func(args ...string) *exec.Cmd { return child(t, append([]string{"run", "-q"}, args...)...) },
	}
	for name, program := range programs {
		for lock, flag := range map[string]string{"HELD": "-x", "SHARED": "-s"} {
			p := startCommand(t, program(flag, filepath.Join(dir, name+lock), "sh", "-c", "echo ready; cat"))
			p.expect("ready")
		}
	}
	for _, line := range []string{
		"-n FREE|true", "-n FREE|sh|-c|exit 3", "FREE|-c|exit 4", "-n FREE|--command|echo $((1+1))", "-n -E 9 HELD|true", "--nonblock -E9 HELD|true",
		"--nb -E 9 HELD|true", "-E 9 -w 0.1 HELD|true", "-E 9 -w.1 HELD|true", "--timeout=0.1 --conflict-exit-code=9 HELD|true", "--wait .1 -E 9 HELD|true",
		"-s -n SHARED|true", "--shared -n SHARED|true", "-sn -E 0 HELD|echo|no", "-x -n -E 9 SHARED|true", "--exclusive -n -E 9 SHARED|true", "-w 5 FREE|echo|-n|--|x",
		"FREE|sh|-c|kill -TERM $$", "-o FREE|sh|-c|sleep 5 >/dev/null 2>&1 & exit 2", "-n -E 9 FREE|true", "--close FREE|true", "-h|",
	} {
		said := map[string]string{}
		codes := map[string]int{}
		for name, program := range programs {
			flags, command, _ := strings.Cut(line, "|")
			args := strings.Fields(strings.NewReplacer("FREE", filepath.Join(dir, name+"FREE"), "HELD", filepath.Join(dir, name+"HELD"),
				"SHARED", filepath.Join(dir, name+"SHARED")).Replace(flags))
			for _, word := range strings.Split(command, "|") {
				if word != "" {
					args = append(args, word)
				}
			}
			cmd := program(args...)
			out, err := cmd.Output()
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				testkit.Check(t, err)
			}
			codes[name], said[name] = cmd.ProcessState.ExitCode(), string(out)
		}
		if codes["flock"] != codes["holdfast"] || line != "-h|" && said["flock"] != said["holdfast"] {
			t.Errorf("%s: exit codes %v, output %q", line, codes, said)
		}
	}
}
