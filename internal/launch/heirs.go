package launch

import (
	"fmt"
	"slices"

	"github.com/coppice-go/coppice/internal/control"
)

// What became of the tasks of the dead. Whoever owns a task in the latest view runs
// it, so a task is lost only if nobody owns it there, or if that process died, too,
// before the job had finished.

// inherit takes over who owned which task last: by the latest view that the
// coordinator was told of, and by those from which views removed somebody.
func (r *Report) inherit(v *control.View, removed map[control.Identity][]int) {
	if v == nil || v.Owners == nil { // each rank that of its number, and nobody another
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

// heirs are the processes that own the tasks of one that is out.
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

// owner is the process that owned a task last; nil: nobody did, or it is not known.
func (r *Report) owner(task int) *TaskReport {
	for i := range r.Tasks {
		if t := &r.Tasks[i]; t.in && task < len(r.owners) && t.Rank == r.owners[task] {
			return t
		}
	}
	return nil
}

// unfinished are the tasks of a process that died which nobody finished.
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

// last is the last life of a process, if the program knows nothing of jobs: then that has
// done it all again. Otherwise its tasks end with it, since nobody told of another owner.
func (r *Report) last(t *TaskReport) *TaskReport {
	last := t
	for i := range r.Tasks {
		if next := &r.Tasks[i]; next.Rank == t.Rank && next.Again > last.Again && !t.Joined && !next.Joined {
			last = next
		}
	}
	return last
}

// survived tells whether a process that ended with an exit code other than 0, and
// without a word, was replaced: a view goes on without it, and others have all its
// tasks. So a Go program ends that crashes, or that SIGSEGV strikes. Who was started
// while the job ran, and never came to be in a view, had none.
func (r *Report) survived(t *TaskReport) bool {
	crashed := t.Exit != nil && *t.Exit != 0 && t.Failure == ""
	useless := (t.extra || t.Again > 0) && !t.in && r.owners != nil
	return crashed && (t.out || useless) && len(r.unfinished(t)) == 0
}

// aftermath says what came after the first death of a job that ended well.
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

// legacy says who took the tasks of a process over.
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
