package command

import "testing"

func TestNearest(t *testing.T) {
	words := []string{"run", "status", "list", "break", "doctor", "version"}
	for in, want := range map[string]string{
		"statsu": "status", "staus": "status", "stattus": "status", "stat": "status", "vresion": "version", "rum": "run",
		"lst": "list", "brake": "break", "breka": "break",
		"": "", "x": "", "ls": "", "lock": "", "acquire": "", "deploy.lock": "", "unlock": "",
	} {
		if got := nearest(in, words); got != want {
			t.Errorf("nearest(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestSlips(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"a", "", 1}, {"", "ab", 2}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"abc", "ab", 1}, {"abc", "xbc", 1}, {"kitten", "sitting", 3},
	} {
		if got := slips(c.a, c.b); got != c.want {
			t.Errorf("slips(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
