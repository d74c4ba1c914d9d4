package command

import (
	"strings"
	"testing"
)

func TestLabel(t *testing.T) {
	for _, c := range []struct {
		command []string
		want    string
	}{
		{[]string{"./deploy", "production"}, "deploy production"},
		{[]string{"/usr/bin/python3.11", "nightly/sync.py", "--fast"}, "python3.11 nightly/sync.py …"},
		{[]string{"make"}, "make"},
		{[]string{"make", "README.md"}, "make README.md"},
		{[]string{"rsync", "-a", "src/", "dst/"}, "rsync -a …"},
		{[]string{"mysql", "--password", "hunter"}, "mysql --password …"},
		{[]string{"env", "PGPASSWORD=hunter", "job"}, "env …"},
		{[]string{"sh", "-c", "curl -u me:hunter example.org"}, "sh -c …"},
		{[]string{"curl", "https://me:hunter@example.org/x"}, "curl …"},
		{[]string{"PGPASSWORD=hunter", "job"}, "a command"},
		{[]string{"./me:hunter@host", "job"}, "a command"},
		{[]string{"a\nb", "job"}, "a command"},
		{[]string{strings.Repeat("x", 41)}, "a command"},
	} {
		if got := label(c.command); got != c.want {
			t.Errorf("label(%q) = %q, want %q", c.command, got, c.want)
		}
	}
	for _, secret := range []string{
		"PASSWORD=hunter", "--password=hunter", "-phunter", "-p=hunter", "-p:hunter", "-p1", "me:hunter", "hunter@", "hunter2", "1234",
		"https://me:hunter@example.org", "postgres://me:hunter@db/app", "//example.org/?token", "me:hunter@host:path",
		"ghp_16C7e42F292c6912E7710c838347Ae178B4a", "AKIAIOSFODNN7EXAMPLE", "sk-live-abcDEFghi", "eyJhbGciOiJIUzI1NiJ9.e30.x",
		"wJalrXUtnFEMI/KEY", "correcthorsebatterystaple", "CORRECTHORSEBATTERY", "two words", "pass'word", "%70ass", "", "$SECRET", "a\x1bb",
		"\u202etxt", strings.Repeat("a-", 30), "-", "--", "../..",
	} {
		if got := label([]string{"job", secret, secret}); got != "job …" {
			t.Errorf("the label shows %q as %q", secret, got)
		}
	}
}
