package tests

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	holdfastModule = "github.com/holdfast-go/holdfast"
	rehearsed      = "v0.999.0" // a version that never was, and won't be
)

// sources is a git repository of its own, in a temporary folder, with this tree's files
// as they are now. Nothing that is done with it is seen elsewhere.
type sources struct {
	dir string
	env []string // for git and the Go tool
}

func newSources(t *testing.T) *sources {
	t.Helper()
	for _, tool := range []string{"git", "sh"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs %s, to rehearse a release: %v", tool, err)
		}
	}
	list := exec.Command("git", "-c", "safe.directory=*", "ls-files", "-z")
	list.Dir = ".."
	list.Env = plainEnv()
	files, err := list.Output()
	if err != nil || len(files) == 0 {
		t.Skip("needs the git repository, to know which files are released: ", err)
	}
	s := &sources{dir: filepath.Join(t.TempDir(), "tree"), env: append(plainEnv(),
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull,
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a",
		"GOWORK=off", "GOFLAGS=-modcacherw -trimpath", "GOSUMDB=off")}
	for name := range strings.SplitSeq(strings.TrimRight(string(files), "\x00"), "\x00") {
		if err := copyFile(filepath.Join("..", name), filepath.Join(s.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	s.must(t, ".", "git", "init", "-q", "-b", "main")
	s.commit(t)
	return s
}

// plainEnv is the environment without what git tells its hooks, and Go settings.
func plainEnv() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "GIT_") || strings.HasPrefix(v, "GOFLAGS=") || strings.HasPrefix(v, "GOWORK=")
	})
}

func copyFile(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	return os.WriteFile(to, data, info.Mode().Perm())
}

// do runs a command in a folder of the tree, or elsewhere if that is absolute.
func (s *sources) do(folder, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = folder
	if !filepath.IsAbs(folder) {
		cmd.Dir = filepath.Join(s.dir, folder)
	}
	cmd.Env = append(s.env[:len(s.env):len(s.env)], "PWD="+cmd.Dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(bytes.TrimSpace(out)), err
}

func (s *sources) must(t *testing.T, folder, name string, args ...string) string {
	t.Helper()
	return must(s.do(folder, name, args...))(t)
}

func (s *sources) commit(t *testing.T) {
	t.Helper()
	s.must(t, ".", "git", "add", "--all", "--force")
	s.must(t, ".", "git", "commit", "-q", "--allow-empty", "-m", "as it is")
}

func (s *sources) release(version ...string) (string, error) {
	return s.do(".", "sh", append([]string{".ci/release.sh"}, version...)...)
}

// state is what a release changes.
func (s *sources) state(t *testing.T) string {
	t.Helper()
	return s.must(t, ".", "git", "show-ref", "--head", "-d") + s.must(t, ".", "git", "status", "--porcelain")
}

// fetched fails a test that could not fetch what it needs, or skips it where nothing can
// be fetched.
func fetched(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	small := regexp.MustCompile(`(?m)^\s+(github.com/gofrs/flock) (v\S+)`).FindStringSubmatch(repositoryFile(t, "go.mod"))
	fresh := &sources{dir: t.TempDir(), env: append(plainEnv(), "GOWORK=off", "GOFLAGS=-modcacherw", "GOMODCACHE="+t.TempDir())}
	if _, unreachable := fresh.do(".", "go", "mod", "download", small[1]+"@"+small[2]); unreachable != nil {
		failed, _, _ := strings.Cut(err.Error(), "\n")
		t.Skipf("needs modules of others, which the module cache lacks and GOPROXY=%s does not give: %v\n%s",
			fresh.must(t, ".", "go", "env", "GOPROXY"), failed, unreachable)
	}
	t.Fatal(err)
}

// edit changes a file of the tree.
func (s *sources) edit(t *testing.T, name string, change func(string) string) {
	t.Helper()
	path := filepath.Join(s.dir, name)
	old := must(os.ReadFile(path))(t)
	check(t, os.WriteFile(path, []byte(change(string(old))), 0o600))
}

// required is the version that the nested modules require as the tree lies here.
func (s *sources) required(t *testing.T) string {
	t.Helper()
	var work struct {
		Replace []struct {
			Old struct{ Path, Version string }
		}
	}
	check(t, json.Unmarshal([]byte(s.must(t, ".", "go", "work", "edit", "-json", "go.work")), &work))
	for _, r := range work.Replace {
		if r.Old.Path == holdfastModule {
			return r.Old.Version
		}
	}
	t.Fatal("go.work does not say which version of the root is here")
	return ""
}

// tag is what makes a version, as release.sh does it: of the root, and of each module
// that others use.
func (s *sources) tag(t *testing.T, version string) {
	t.Helper()
	s.must(t, ".", "git", "tag", version)
	for file := range strings.SplitSeq(s.must(t, ".", "git", "ls-files", "*/go.mod"), "\n") {
		if module := strings.TrimSuffix(file, "/go.mod"); module != "tests" && module != "benchmarks" {
			s.must(t, ".", "git", "tag", module+"/"+version)
		}
	}
}

// stranger has nothing of holdfast but what its tags say, and nothing of others at first.
type stranger struct {
	*sources
	modules []string // of holdfast, all that can be had
	dir     string   // of an empty module
	bin     string
}

// newStranger has holdfast's modules come of the tags, as a module proxy makes them, and
// those of others of this machine's cache, as far as that has them, or of where the cache
// has them from.
func newStranger(t *testing.T, s *sources) *stranger {
	t.Helper()
	tmp := t.TempDir()
	v := &stranger{dir: filepath.Join(tmp, "stranger"), bin: filepath.Join(tmp, "bin")}
	cache := filepath.Join(s.must(t, ".", "go", "env", "GOMODCACHE"), "cache", "download")
	v.sources = &sources{dir: s.dir, env: slices.Concat(s.env, []string{
		"GOPATH=" + filepath.Join(tmp, "gopath"), "GOMODCACHE=" + filepath.Join(tmp, "modules"), "GOBIN=" + v.bin,
		"GOPROXY=file://" + filepath.ToSlash(cache) + "," + s.must(t, ".", "go", "env", "GOPROXY"), "GOPRIVATE=", "GONOPROXY=" + holdfastModule,
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url.file://" + s.dir + ".insteadOf", "GIT_CONFIG_VALUE_0=https://" + holdfastModule})}
	for tag := range strings.SplitSeq(s.must(t, ".", "git", "tag"), "\n") {
		folder, _ := filepath.Split(tag)
		v.modules = append(v.modules, strings.TrimSuffix(holdfastModule+"/"+folder, "/"))
	}
	check(t, os.Mkdir(v.dir, 0o700))
	v.must(t, v.dir, "go", "mod", "init", "example.com/stranger")
	return v
}

// get gets every module that others use, as its latest version; or fails with what is
// wanted, if anything is.
func (v *stranger) get(t *testing.T, wanted string) {
	t.Helper()
	for _, module := range v.modules {
		if _, err := v.do(v.dir, "go", "get", module+"@latest"); err != nil {
			if wanted == "" || !strings.Contains(err.Error(), wanted) {
				fetched(t, err)
			}
			return
		}
	}
	that(t, wanted == "", "all was got, want the error %q", wanted)
}

// build builds a program that imports what it says, and runs it if that needs no server.
func (v *stranger) build(t *testing.T, name, program string) {
	t.Helper()
	dir := filepath.Join(v.dir, name)
	check(t, os.Mkdir(dir, 0o700))
	check(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o600))
	binary := filepath.Join(dir, "program.exe")
	v.must(t, dir, "go", "build", "-mod=mod", "-o", binary, ".")
	if !strings.Contains(program, "/lock/pg\"") {
		v.must(t, dir, binary)
	}
}

// readmePrograms are the programs of the README, and the one with another engine as its
// comment has it.
func readmePrograms(t *testing.T) (programs []string) {
	t.Helper()
	or := regexp.MustCompile(`(?m)^\treturn .* // or: (return pg\.Open\(.*)$`)
	engines := 0
	for _, block := range regexp.MustCompile("(?ms)^```go\n(.*?)^```").FindAllStringSubmatch(repositoryFile(t, "README.md"), -1) {
		program := block[1]
		programs = append(programs, program)
		if or.MatchString(program) {
			engines++
			program = strings.Replace(program, holdfastModule+"/lock\"\n", holdfastModule+"/lock\"\n\""+holdfastModule+"/lock/pg\"\n", 1)
			programs = append(programs, or.ReplaceAllString(program, "\t$1"))
		}
	}
	if len(programs) < 4 || engines != 1 {
		t.Fatalf("README.md has %d programs, and %d examples of an engine", len(programs), engines)
	}
	return programs
}
