package launch

import (
	"fmt"
	"slices"

	"github.com/coppice-go/coppice/internal/control"
)

// What became of the tasks of the dead. The owner of a task in the latest view runs
// it, so a task is lost only if it has no owner there, or if that process died, too,
// before the job had finished.

// inherit records which process owned which task last, by the latest view that the
// coordinator knows, and by the views that removed processes.
func (r *Report) inherit(v *control.View, removed map[control.Identity][]int) {
	if v == nil || v.Owners == nil { // each rank owns the task of its number, and no other
		for i := range r.Tasks {
			if t := &r.Tasks[i]; !t.extra {
				t.tasks = []int{t.Rank}
			}
		}
		return
	}
	r.owners = v.Owners
	owned := map[int][]int{}
	for task, owner := range v.Owners {
		owned[owner] = append(owned[owner], task)
	}
	in := map[control.Identity]bool{}
	for _, m := range v.Members {
		in[m] = true
	}
	first := 0 // processes that the job began with
	for i := range r.Tasks {
		if t := &r.Tasks[i]; !t.extra && t.Again <= firstIncarnation {
			first++
		}
	}
	for i := range r.Tasks {
		t := &r.Tasks[i]
		t.apart = len(v.Owners) != first
		id := control.Identity{uint64(t.Rank), max(t.Again, firstIncarnation)}
		t.tasks, t.out = removed[id]
		if t.in = in[id]; t.in {
			t.tasks = owned[t.Rank]
		}
	}
	for i := range r.Tasks {
		r.Tasks[i].Heirs = r.heirs(&r.Tasks[i])
	}
}

// heirs returns the processes that own the tasks of a process that is out.
func (r *Report) heirs(t *TaskReport) (ids []int) {
	if !t.out {
		return nil
	}
	for _, task := range t.tasks {
		if owner := r.owner(task); owner != nil {
			ids = append(ids, owner.Rank)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// owner returns the process that owned a task last; nil: none did, or it is unknown.
func (r *Report) owner(task int) *TaskReport {
	for i := range r.Tasks {
		if t := &r.Tasks[i]; t.in && task < len(r.owners) && t.Rank == r.owners[task] {
			return t
		}
	}
	return nil
}

// unfinished returns the tasks of a dead process that no process finished.
func (r *Report) unfinished(t *TaskReport) (tasks []int) {
	for _, task := range t.tasks {
		owner := r.owner(task)
		if r.owners == nil {
			owner = r.last(t)
		}
		if owner == nil || owner.died() && !owner.left || !owner.finished() {
			tasks = append(tasks, task)
		}
	}
	return tasks
}

// last returns the last incarnation of a process, if the program never joins the job: that incarnation has
// done the work again. Otherwise its tasks end with it, since no view names another owner.
func (r *Report) last(t *TaskReport) *TaskReport {
	last := t
	for i := range r.Tasks {
		if next := &r.Tasks[i]; next.Rank == t.Rank && next.Again > last.Again && !t.Joined && !next.Joined {
			last = next
		}
	}
	return last
}

// survived reports whether a process that ended with an exit code other than 0, and
// did not say why, was replaced: a view continues without it, and others have all its
// tasks. A Go program ends like this if it crashes or gets SIGSEGV. A process that was started
// while the job ran, and never was in a view, had no tasks.
func (r *Report) survived(t *TaskReport) bool {
	crashed := t.Exit != nil && *t.Exit != 0 && t.Failure == ""
	useless := (t.extra || t.Again > 0) && !t.in && r.owners != nil
	return crashed && (t.out || useless) && len(r.unfinished(t)) == 0
}

// aftermath describes what followed the first death of a job that ended well.
func (r *Report) aftermath(first *TaskReport, others int) (text string) {
	end := "; the others ended well"
	if len(first.Heirs) > 0 && len(r.unfinished(first)) == 0 {
		text, end = first.legacy()+" and ended well", ""
	}
	if others > 0 {
		text += "; then " + counted(others, "other died", "others died")
		end = "; the rest ended well"
		if len(r.Lost) == 0 && r.owners != nil {
			end = "; all tasks ended well"
		}
	}
	return text + end
}

// legacy says which processes took over the tasks of a process.
func (t *TaskReport) legacy() string {
	was, processes := "was", "process "
	if len(t.tasks) > 1 {
		was = "were"
	}
	if len(t.Heirs) > 1 {
		processes = "processes "
	}
	return fmt.Sprintf("; its %s %s taken over by %s%s", tasks(t.tasks), was, processes, rankList(t.Heirs))
}
