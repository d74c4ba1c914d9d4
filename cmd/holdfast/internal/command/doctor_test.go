package command

import (
	"testing"
)

func TestDoctorDecides(t *testing.T) {
	kernel := []check{{checkDescriptors, good, ""}, {checkProcesses, good, ""}, {checkDeath, good, ""}}
	none := []check{{checkDescriptors, weak, ""}}
	untried := []check{{checkDescriptors, good, ""}, {checkProcesses, weak, ""}}
	twice := []check{{checkDescriptors, good, ""}, {checkProcesses, bad, ""}}
	other := []check{{"boot", weak, ""}, {"process", weak, ""}}
	for _, c := range []struct {
		name    string
		checks  []check
		trusted bool
		want    mode
		code    int
	}{
		{"all is well", kernel, true, modeProof, 0},
		{"what is weak beside the kernel lock", append(other, kernel...), true, modeProof, 0},
		{"network filesystem", kernel, false, modeUntrusted, 5},
		{"no kernel lock", none, true, modeFallback, 5},
		{"no second process", untried, true, modeUntrusted, 5},
		{"granted twice", twice, true, modeNone, 1},
		{"not writable", append(kernel, check{"permissions", bad, ""}), true, modeNone, 1},
	} {
		r := &report{Filesystem: fsReport{Trusted: c.trusted}, Checks: c.checks}
		if got := r.decide(); got != c.want || modes[got].code != c.code {
			t.Errorf("%s: got %q, exit code %d; want %q, %d", c.name, got, modes[got].code, c.want, c.code)
		}
	}
}
