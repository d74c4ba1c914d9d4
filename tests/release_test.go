package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestRelease rehearses a release: release.sh in a repository of its own, and then what
// others do with its tags.
func TestRelease(t *testing.T) {
	t.Parallel()
	s := newSources(t)
	out, err := s.release(rehearsed)
	check(t, err)
	for _, want := range []string{"tag " + rehearsed, "tag lock/pg/" + rehearsed, "git push --atomic origin HEAD " + rehearsed + " cmd/holdfast/" + rehearsed + " lock/etcd/" + rehearsed + " lock/pg/" + rehearsed} {
		that(t, strings.Contains(out, want+"\n"), "release.sh does not say %q:\n%s", want, out)
	}
	if changes := s.must(t, ".", "git", "status", "--porcelain"); changes != "" {
		t.Errorf("it left changes:\n%s", changes)
	}
	if !strings.Contains(s.must(t, ".", "git", "show", rehearsed+":CHANGELOG.md"), "\n## "+rehearsed+" (") {
		t.Error("CHANGELOG.md has no section for the version")
	}

	v := newStranger(t, s)
	v.get(t, "")
	for i, program := range readmePrograms(t) {
		v.build(t, "readme"+string(rune('1'+i)), program)
	}
	if _, err := v.do(v.dir, "go", "install", holdfastModule+"/cmd/holdfast@"+rehearsed); err != nil {
		fetched(t, err)
	}
	if got, want := v.must(t, v.dir, filepath.Join(v.bin, "holdfast"), "version"), "holdfast "+rehearsed+" "; !strings.HasPrefix(got, want) {
		t.Errorf("holdfast version says %q, want %q...", got, want)
	}

	// Those who clone it have sums that are true of what is published, in every module.
	for file := range strings.SplitSeq(s.must(t, ".", "git", "ls-files", "*/go.mod"), "\n") {
		module := filepath.Dir(file)
		wanted := []string{"mod", "download", holdfastModule + "@" + rehearsed}
		for _, nested := range []string{"lock/etcd", "lock/pg"} {
			if strings.Contains(s.must(t, module, "go", "mod", "edit", "-json"), "/"+nested+`"`) && module != nested {
				wanted = append(wanted, holdfastModule+"/"+nested+"@"+rehearsed)
			}
		}
		v.must(t, filepath.Join(s.dir, module), "go", wanted...)
	}
	if changes := s.must(t, ".", "git", "status", "--porcelain"); changes != "" {
		t.Errorf("sums were missing:\n%s", s.must(t, ".", "git", "diff"))
	}
	for _, module := range v.modules {
		folder := strings.TrimPrefix(strings.TrimPrefix(module, holdfastModule), "/")
		v.must(t, filepath.Join(s.dir, folder), "go", "build", "-mod=readonly", "./...")
	}
	_, err = v.do(filepath.Join(s.dir, "tests"), "go", "list", "-mod=readonly", "-deps", "-test", "./...")
	fetched(t, err)
}

// TestRelease_Again: a release that is made stays as it is, and one that was cut short is
// completed. What it can't do changes nothing.
func TestRelease_Again(t *testing.T) {
	t.Parallel()
	s := newSources(t)
	refused := func(why string, args ...string) {
		t.Helper()
		before := s.state(t)
		if out, err := s.release(args...); err == nil || !strings.Contains(out, why) {
			t.Errorf("release.sh %q: %v, want an error that says %q:\n%s", args, err, why, out)
		}
		if after := s.state(t); after != before {
			t.Errorf("release.sh %q failed, but changed the repository:\n%s\nbefore:\n%s", args, after, before)
		}
	}
	for _, args := range [][]string{nil, {""}, {"0.1.0"}, {"v0.1"}, {"v0.1.0.0"}, {"v0.01.0"}, {"v2.0.0"}, {"v0.1.0-rc.1"},
		{"v0.1.0\nv0.1.0"}, {"-h"}, {"v0.1.0", "v0.2.0"}} {
		refused("usage", args...)
	}
	scratch := filepath.Join(s.dir, "scratch")
	check(t, os.WriteFile(scratch, nil, 0o600))
	refused("scratch", rehearsed)
	os.Remove(scratch)

	// The Go tool fails half way.
	tool := must(exec.LookPath("go"))(t)
	bin := t.TempDir()
	script := "#!/bin/sh\ncase $* in *download*/lock/pg@*) echo half way >&2; exit 1 ;; esac\nexec '" + tool + "' \"$@\"\n"
	check(t, os.WriteFile(filepath.Join(bin, "go"), []byte(script), 0o700))
	env := s.env
	s.env = append(env[:len(env):len(env)], "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	refused("half way", rehearsed)
	s.env = env

	first := must(s.release(rehearsed))(t)
	done := s.state(t)
	again := func() {
		t.Helper()
		if out, err := s.release(rehearsed); err != nil || lastLines(out) != lastLines(first) {
			t.Errorf("a second time: %v\n%s\nfirst:\n%s", err, out, first)
		}
	}
	again()
	if s.state(t) != done {
		t.Errorf("a second time made another release:\n%s\nbefore:\n%s", s.state(t), done)
	}
	for _, missing := range [][]string{{"lock/pg/" + rehearsed}, {rehearsed, "lock/pg/" + rehearsed}} { // as if killed before
		s.must(t, ".", "git", append([]string{"tag", "-d"}, missing...)...)
		again()
		for _, tag := range missing {
			if s.must(t, ".", "git", "rev-parse", tag+"^{commit}") != s.must(t, ".", "git", "rev-parse", "HEAD") {
				t.Errorf("tag %s, which was missing, is not of the release", tag)
			}
		}
	}

	s.commit(t)
	refused("another commit", rehearsed)
}

// lastLines is what release.sh itself says, without what the Go tool said before.
func lastLines(out string) string {
	_, out, _ = strings.Cut(out, "release.sh: ")
	return out
}

// TestPublish_AsItIs: what lies here can be got from elsewhere, without release.sh having
// put it right before.
func TestPublish_AsItIs(t *testing.T) {
	t.Parallel()
	s := newSources(t)
	s.tag(t, s.required(t))
	newStranger(t, s).get(t, "")
}

// TestPublish_Mistakes: the rehearsal finds what go.work hides.
func TestPublish_Mistakes(t *testing.T) {
	t.Parallel()
	for _, mistake := range []struct{ name, version, replace string }{
		{"a placeholder and a replace", "v0.0.0", "\nreplace " + holdfastModule + " => ../..\n"},
		{"a version that is not published", "v0.998.0", ""},
	} {
		t.Run(mistake.name, func(t *testing.T) {
			s := newSources(t)
			version := s.required(t)
			for _, file := range []string{"cmd/holdfast/go.mod", "lock/etcd/go.mod", "lock/pg/go.mod"} { // the highest version counts
				s.edit(t, file, func(mod string) string {
					return strings.Replace(mod, holdfastModule+" "+version, holdfastModule+" "+mistake.version, 1) + mistake.replace
				})
			}
			s.commit(t)
			s.tag(t, version)
			newStranger(t, s).get(t, "unknown revision "+mistake.version)
			if mistake.replace == "" {
				return // release.sh puts it right
			}
			if out, err := s.release(rehearsed); err == nil || !strings.Contains(out, "cmd/holdfast/go.mod has a replace") {
				t.Errorf("release.sh: %v, want an error about the replace:\n%s", err, out)
			}
		})
	}
}
