//go:build unix

package launch

import (
	"regexp"
	"slices"
	"testing"
)

// TestAProcessThatQuitsFailsTheJob: nobody runs the tasks again that a process has left by exiting with
// 0, and the job has failed. What became of a process in a wrapper is not known, but that nobody's tasks have returned is.
func TestAProcessThatQuitsFailsTheJob(t *testing.T) {
	for _, c := range []struct {
		name, script, cause string
		hosts               []Host
		lost                []int
	}{
		{"here", "", `^task 1 failed, .* s after the start: exited with 0 before task 1 returned; then 2 others failed$`, nil, []int{1}},
		{"on a host", "", `^task 1 failed, .* s after the start: exited with 0 before task 1 returned; then 2 others failed$`, []Host{{"a", 3}}, []int{1}},
		{"wrapped", `QUITS=1 "$0"; exit 0`, `^tasks 0-2 never returned: all processes that had tasks have ended$`, nil, []int{0, 1, 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			shelf(t)
			job := own(3, "quitter")
			if c.hosts != nil {
				job.onHosts(t, c.hosts...)
			}
			if c.script != "" {
				job.Program, job.Args = "sh", []string{"-c", c.script, job.Program}
			}
			r := job.begin(t)()
			if r.Exit != 1 || !regexp.MustCompile(c.cause).MatchString(r.Cause) || len(r.Killed) != 0 || !slices.Equal(r.Lost, c.lost) {
				t.Errorf("report %+v, shown %q", r, job.err.String())
			}
		})
	}
}
