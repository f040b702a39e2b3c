//go:build unix

package launch

import (
	"fmt"
	"regexp"
	"slices"
	"testing"

	"github.com/coppice-go/coppice/internal/control"
)

// members are the first lives of some ranks.
func members(ranks ...int) (all []control.Identity) {
	for _, r := range ranks {
		all = append(all, control.Identity{uint64(r), 1})
	}
	return all
}

func TestTasksOfTheDeadAreLostOnlyIfNobodyHasThem(t *testing.T) {
	well := func(rank int) TaskReport { return endedTask(rank, 0, 900, "", "") }
	killed := func(rank int) TaskReport { return endedTask(rank, -1, 100+rank, "", "") }
	crashed := func(rank int, said string) TaskReport { return endedTask(rank, 2, 100+rank, "", said) }
	returned := func(t TaskReport) TaskReport { t.left = true; return t }
	again := func(t TaskReport) TaskReport { t.Again = 2; return t }
	joined := func(t TaskReport) TaskReport { t.extra = true; return t }
	enrolled := func(t TaskReport) TaskReport { t.Joined = true; return t }
	one, two := control.Identity{1, 1}, control.Identity{2, 1}
	for _, c := range []struct {
		name    string
		tasks   []TaskReport
		view    *control.View
		removed map[control.Identity][]int
		want    string
	}{
		{
			"nobody tells of views",
			[]TaskReport{well(0), killed(1)},
			nil,
			nil,
			"exit 0, killed [1], lost [1]: task 1 was killed by SIGKILL, 0.10 s after the start; the others ended well",
		},
		{
			"taken over",
			[]TaskReport{well(0), killed(1), well(2)},
			&control.View{Number: 2, Members: members(0, 2), Owners: []int{0, 2, 2}},
			map[control.Identity][]int{one: {1}},
			"exit 0, killed [1], lost []: process 1 was killed by SIGKILL, 0.10 s after the start; its task 1 was taken over by process 2 and ended well",
		},
		{
			"several tasks, several heirs",
			[]TaskReport{well(0), killed(1), well(2)},
			&control.View{Number: 2, Members: members(0, 2), Owners: []int{0, 0, 2, 0, 2, 2}},
			map[control.Identity][]int{one: {2, 3}},
			"exit 0, killed [1], lost []: process 1 was killed by SIGKILL, 0.10 s after the start; its tasks 2, 3 were taken over by processes 0, 2 and ended well",
		},
		{
			"one after the other",
			[]TaskReport{well(0), killed(1), killed(2)},
			&control.View{Number: 3, Members: members(0), Owners: []int{0, 0, 0}},
			map[control.Identity][]int{one: {1}, two: {1, 2}},
			"exit 0, killed [1 2], lost []: process 1 was killed by SIGKILL, 0.10 s after the start; its task 1 was taken over by process 0 and ended well; then 1 other died; all tasks ended well",
		},
		{
			"the adopter died and no view came",
			[]TaskReport{well(0), killed(1), killed(2)},
			&control.View{Number: 2, Members: members(0, 2), Owners: []int{0, 2, 2}},
			map[control.Identity][]int{one: {1}},
			"exit 0, killed [1 2], lost [1 2]: process 1 was killed by SIGKILL, 0.10 s after the start; then 1 other died; the rest ended well",
		},
		{
			"nothing is adopted",
			[]TaskReport{well(0), killed(1), well(2)},
			&control.View{Number: 2, Members: members(0, 2), Owners: []int{0, -1, 2}},
			map[control.Identity][]int{one: {1}},
			"exit 0, killed [1], lost [1]: task 1 was killed by SIGKILL, 0.10 s after the start; the others ended well",
		},
		{
			"several tasks, and nothing is adopted",
			[]TaskReport{well(0), killed(1)},
			&control.View{Number: 1, Members: members(0, 1), Owners: []int{0, 0, 1, 1}},
			nil,
			"exit 0, killed [1], lost [2 3]: process 1 was killed by SIGKILL, 0.10 s after the start; the others ended well",
		},
		{
			"killed when the job had finished",
			[]TaskReport{well(0), returned(killed(1))},
			&control.View{Number: 1, Members: members(0, 1), Owners: []int{0, 1}},
			nil,
			"exit 0, killed [1], lost []: task 1 was killed by SIGKILL, 0.10 s after the start; the others ended well",
		},
		{
			"crashed",
			[]TaskReport{well(0), crashed(1, ""), well(2)},
			&control.View{Number: 2, Members: members(0, 2), Owners: []int{0, 2, 2}},
			map[control.Identity][]int{one: {1}},
			"exit 0, killed [1], lost []: process 1 ended with exit code 2, 0.10 s after the start; its task 1 was taken over by process 2 and ended well",
		},
		{
			"crashed, and nothing is adopted",
			[]TaskReport{well(0), crashed(1, ""), well(2)},
			&control.View{Number: 2, Members: members(0, 2), Owners: []int{0, -1, 2}},
			map[control.Identity][]int{one: {1}},
			"exit 1, killed [], lost []: task 1 ended with exit code 2, 0.10 s after the start",
		},
		{
			"crashed at the end",
			[]TaskReport{well(0), crashed(1, "")},
			&control.View{Number: 1, Members: members(0, 1), Owners: []int{0, 1}},
			nil,
			"exit 1, killed [], lost []: task 1 ended with exit code 2, 0.10 s after the start",
		},
		{
			"a failure is final",
			[]TaskReport{well(0), crashed(1, "boom"), well(2)},
			&control.View{Number: 2, Members: members(0, 2), Owners: []int{0, 2, 2}},
			map[control.Identity][]int{one: {1}},
			"exit 1, killed [], lost []: process 1 ended with exit code 2, 0.10 s after the start: boom",
		},
		{
			"the adopter fails",
			[]TaskReport{well(0), killed(1), crashed(2, "boom")},
			&control.View{Number: 2, Members: members(0, 2), Owners: []int{0, 2, 2}},
			map[control.Identity][]int{one: {1}},
			"exit 1, killed [1], lost []: process 1 was killed by SIGKILL, 0.10 s after the start; then 1 other failed: boom",
		},
		{
			"the next life has nothing of the first",
			[]TaskReport{well(0), killed(1), again(well(1))},
			&control.View{Number: 3, Members: []control.Identity{{0, 1}, {1, 2}}, Owners: []int{0, 0}},
			map[control.Identity][]int{one: {1}},
			"exit 0, killed [1], lost []: process 1 was killed by SIGKILL, 0.10 s after the start; its task 1 was taken over by process 0 and ended well",
		},
		{
			"who joined came too late",
			[]TaskReport{killed(0), killed(1), joined(well(2))},
			&control.View{Number: 1, Members: members(0, 1), Owners: []int{0, 1}},
			nil,
			"exit 1, killed [0 1], lost [0 1]: task 0 was killed by SIGKILL, 0.10 s after the start; then 1 other died",
		},
		{
			"the next life came too late",
			[]TaskReport{killed(0), killed(1), again(enrolled(well(0)))},
			&control.View{Number: 1, Members: members(0, 1), Owners: []int{0, 1}},
			nil,
			"exit 1, killed [0 1], lost [0 1]: task 0 was killed by SIGKILL, 0.10 s after the start; then 1 other died",
		},
		{
			"nobody is left",
			[]TaskReport{killed(0), killed(1)},
			&control.View{Number: 2, Members: members(0), Owners: []int{0, 0}},
			map[control.Identity][]int{one: {1}},
			"exit 1, killed [0 1], lost [0 1]: task 0 was killed by SIGKILL, 0.10 s after the start; then 1 other died",
		},
	} {
		r := Report{Tasks: c.tasks}
		r.inherit(c.view, c.removed)
		r.conclude()
		got := fmt.Sprintf("exit %d, killed %v, lost %v: %s", r.Exit, r.Killed, r.Lost, r.Cause)
		if got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

// TestAnAdoptedTaskIsNotLost: real processes, of which one ends before the job does
// and another takes its task over, here and on other hosts.
func TestAnAdoptedTaskIsNotLost(t *testing.T) {
	for _, c := range []struct {
		name, how string
		hosts     []Host
		want      string
	}{
		{"killed", "SIGKILL", nil, "was killed by SIGKILL"},
		{"crashed", "2", nil, "ended with exit code 2"},
		{"on another host", "SIGKILL", []Host{{"a", 1}, {"b", 3}}, "was killed by SIGKILL"},
	} {
		t.Run(c.name, func(t *testing.T) {
			shelf(t)
			job := own(4, "adopter", c.how)
			if c.hosts != nil {
				job.onHosts(t, c.hosts...)
			}
			r := job.run(t)
			if r.Exit != 0 || !slices.Equal(r.Killed, []int{1}) || len(r.Lost) != 0 || !slices.Equal(r.Tasks[1].Heirs, []int{3}) {
				t.Errorf("report %+v", r)
			}
			want := regexp.MustCompile(`^process 1 ` + c.want + `, .* s after the start; its task 1 was taken over by process 3 and ended well$`)
			if !want.MatchString(r.Cause) {
				t.Errorf("cause %q", r.Cause)
			}
			job.out.await(t, `\[3\] works for 1`, 1)
		})
	}
}
