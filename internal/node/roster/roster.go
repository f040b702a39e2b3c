// Package roster records, for every task, the process that owns it, the view since which it does, and
// whether the task takes part: it may have returned, its process may have crashed, or no process can
// run it again. It is one process's table of all that the process knows, and the only place where that
// is recorded.
package roster

import "github.com/coppice-go/coppice/protocol/membership"

// Status is the state of a task.
type Status struct {
	Dead     bool // no process will run it again
	Orphan   bool // its process has crashed, another one will run it
	Returned bool
	Why      string // the reason why it is dead, or has failed
}

type task struct {
	owner int32
	since uint64
	Status
}

// returnedEarly is the return of a task, reported by a process that does not own the task yet, as far
// as this process knows.
type returnedEarly struct {
	source int
	why    string
}

// Table is the table of one process.
type Table struct {
	self   int
	adopts bool // survivors run the tasks of crashed processes again
	tasks  []task
	early  map[int]returnedEarly // by task
	gone   bool                  // some tasks take part no more
	deaths bool                  // some processes crashed
}

// New returns the table of a job that begins. A process that joins the job owns nothing: the task of
// its number belonged to an earlier incarnation.
func New(self int, owners []int32, joins, adopts bool) *Table {
	t := &Table{self: self, adopts: adopts, tasks: make([]task, len(owners)), early: map[int]returnedEarly{}}
	for i, owner := range owners {
		if joins && int(owner) == self {
			owner = -1
		}
		t.tasks[i] = task{owner: owner, since: 1}
	}
	return t
}

// Len returns the number of tasks.
func (t *Table) Len() int { return len(t.tasks) }

// Has reports whether a task with this number exists.
func (t *Table) Has(number uint64) bool { return number < uint64(len(t.tasks)) }

// Owner returns the process that owns a task, or −1 if no process does.
func (t *Table) Owner(number int) int { return int(t.tasks[number].owner) }

// Mine reports whether this process owns a task.
func (t *Table) Mine(number int) bool { return t.Owner(number) == t.self }

// Since returns the number of the view that gave a task to its owner.
func (t *Table) Since(number int) uint64 { return t.tasks[number].since }

// Again reports whether a task is run again, by another process than the one that began it.
func (t *Table) Again(number int) bool { return t.tasks[number].since > 1 }

// Attempt returns 0 for a task that its first process still owns; later owners have larger numbers.
func (t *Table) Attempt(number int) int { return int(t.tasks[number].since - 1) }

// Of lists the tasks of a process.
func (t *Table) Of(rank int) (numbers []int) {
	for i := range t.tasks {
		if t.Owner(i) == rank {
			numbers = append(numbers, i)
		}
	}
	return numbers
}

// Status returns the state of a task.
func (t *Table) Status(number int) Status { return t.tasks[number].Status }

// Gone reports whether some tasks take part no more.
func (t *Table) Gone() bool { return t.gone }

// Deaths reports whether some processes crashed.
func (t *Table) Deaths() bool { return t.deaths }

// Rests reports whether all tasks of this process have ended.
func (t *Table) Rests() bool {
	for i := range t.tasks {
		if s := &t.tasks[i]; t.Mine(i) && !s.Returned && !s.Dead {
			return false
		}
	}
	return true
}

// Assign assigns tasks to the owners that a view names, and lists the tasks whose owner or since
// changed.
func (t *Table) Assign(v *membership.View) (changed []int) {
	for i, id := range v.Owners {
		if s := &t.tasks[i]; id >= 0 && (s.owner != int32(id) || s.since != v.Since[i]) {
			if s.owner, s.since = int32(id), v.Since[i]; !s.Dead { // lost tasks stay lost
				s.Status = Status{}
			}
			changed = append(changed, i)
		}
	}
	return changed
}

// Died records that a process crashed. Its tasks are dead even if they had returned: what they owe
// others will not come. If survivors run them again, they are orphans until a view names their new
// owners.
func (t *Table) Died(rank int, how string) {
	for i := range t.tasks {
		if s := &t.tasks[i]; t.Owner(i) == rank && !s.Dead {
			if t.deaths = true; t.adopts {
				s.Status = Status{Orphan: true, Why: how}
				continue
			}
			s.Dead, s.Why, t.gone = true, how, true
		}
	}
}

// Named records the cause of a crash that Died already recorded, and replaces what a process that did
// not know the cause reported. The reason why a task could not be run again stays.
func (t *Table) Named(rank int, how string) {
	for i := range t.tasks {
		if s := &t.tasks[i]; t.Owner(i) == rank && s.Dead && !t.adopts {
			s.Why = how
		}
	}
}

// Lose records that no process can run some tasks again, and lists those that were not dead before.
func (t *Table) Lose(why string, numbers ...int) (news []int) {
	for _, n := range numbers {
		if s := &t.tasks[n]; !s.Dead {
			s.Status = Status{Dead: true, Why: why}
			t.gone, t.deaths = true, true
			news = append(news, n)
		}
	}
	return news
}

// Returned records that a task has returned; a non-empty why means that it failed. It returns false if
// the task is dead.
func (t *Table) Returned(number int, why string) bool {
	s := &t.tasks[number]
	if s.Dead {
		return false
	}
	s.Returned, s.Why, t.gone = true, why, true
	return true
}

// Left records that processes have returned, with the tasks that they began with. It sets why only for
// a process with a single task: of several, each task answers for itself.
func (t *Table) Left(ranks []int, why string) {
	returned := make(map[int]bool, len(ranks))
	for _, r := range ranks {
		returned[r] = true
	}
	number := map[int]int{} // of tasks, by process
	for i := range t.tasks {
		number[t.Owner(i)]++
	}
	for i := range t.tasks {
		s := &t.tasks[i]
		if !returned[t.Owner(i)] || s.Dead || s.Orphan || t.Again(i) {
			continue
		}
		if s.Returned, t.gone = true, true; s.Why == "" && number[t.Owner(i)] == 1 {
			s.Why = why
		}
	}
}

// Told records a return that source reported, as Returned does if source owns the task. If source owns
// it only in a view that is not known here, Early records it later.
func (t *Table) Told(number, source int, why string) bool {
	if t.Owner(number) == source {
		return t.Returned(number, why)
	}
	t.early[number] = returnedEarly{source, why}
	return false
}

// Early records, after Assign, a return that the new owner of a task reported before the view that made
// it the owner arrived. It reports whether there was one.
func (t *Table) Early(number int) bool {
	r, ok := t.early[number]
	delete(t.early, number)
	return ok && r.source == t.Owner(number) && t.Returned(number, r.why)
}
