// Package roster says of every task who owns it, since which view, and whether it takes part: it
// has returned, or its process has died, or nobody can run it again. It is one process's table,
// for all that the process knows, and the only place where that is written.
package roster

import "github.com/coppice-go/coppice/protocol/membership"

// Status is what became of a task.
type Status struct {
	Dead     bool // nobody will run it again
	Orphan   bool // its process is dead, another one will run it
	Returned bool
	Why      string // it is dead, or has failed
}

type task struct {
	owner int32
	since uint64
	Status
}

// returnedEarly is a task that has returned at a process that does not own it yet, as
// far as is known here.
type returnedEarly struct {
	source int
	why    string
}

// Table is that of one process.
type Table struct {
	self   int
	adopts bool // tasks of the dead are run again
	tasks  []task
	early  map[int]returnedEarly // by task
	gone   bool                  // some take part no more
	deaths bool                  // some processes died
}

// New returns the table of a job that begins. A process that joins it owns nothing: what is its by
// number was an earlier life's.
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

// Len is the number of tasks.
func (t *Table) Len() int { return len(t.tasks) }

// Has reports whether there is a task of a number.
func (t *Table) Has(number uint64) bool { return number < uint64(len(t.tasks)) }

// Owner is the process that owns a task; −1: nobody does.
func (t *Table) Owner(number int) int { return int(t.tasks[number].owner) }

// Mine reports whether this process owns a task.
func (t *Table) Mine(number int) bool { return t.Owner(number) == t.self }

// Since is the view that gave a task to its owner.
func (t *Table) Since(number int) uint64 { return t.tasks[number].since }

// Again reports whether a task is run again: not by the process that began with it.
func (t *Table) Again(number int) bool { return t.tasks[number].since > 1 }

// Attempt is 0 for a task that is where it began, and more the later it came to its owner.
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

// Status is what became of a task.
func (t *Table) Status(number int) Status { return t.tasks[number].Status }

// Gone reports whether some tasks take part no more.
func (t *Table) Gone() bool { return t.gone }

// Deaths reports whether some processes died.
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

// Assign makes the owners of a view those of the tasks, and lists the tasks that are whose now or
// since when they were not.
func (t *Table) Assign(v *membership.View) (changed []int) {
	for i, id := range v.Owners {
		if s := &t.tasks[i]; id >= 0 && (s.owner != int32(id) || s.since != v.Since[i]) {
			if s.owner, s.since = int32(id), v.Since[i]; !s.Dead { // the lost stay lost
				s.Status = Status{}
			}
			changed = append(changed, i)
		}
	}
	return changed
}

// Died says that a process died. Its tasks are dead even if they had returned: what they owe
// others will not come. If others run them again, they are orphans until a view says who does.
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

// Named says how a process died that is known to be dead: what was said before was said by who
// did not know. Why a task could not be run again stays.
func (t *Table) Named(rank int, how string) {
	for i := range t.tasks {
		if s := &t.tasks[i]; t.Owner(i) == rank && s.Dead && !t.adopts {
			s.Why = how
		}
	}
}

// Lose says that nobody can run tasks again, and lists those of which that is news.
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

// Returned says that a task has returned; why: it has failed. It returns false if the task is dead.
func (t *Table) Returned(number int, why string) bool {
	s := &t.tasks[number]
	if s.Dead {
		return false
	}
	s.Returned, s.Why, t.gone = true, why, true
	return true
}

// Left says that processes have returned, with what they began with. Of several tasks each answers
// for itself, when asked, how.
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

// Told is Returned, if it is the owner of a task who says so. Others may own it in a view that is
// not known here: then Early returns it.
func (t *Table) Told(number, source int, why string) bool {
	if t.Owner(number) == source {
		return t.Returned(number, why)
	}
	t.early[number] = returnedEarly{source, why}
	return false
}

// Early applies, after Assign, a return that the new owner of a task had reported before the view that
// made it the owner. It reports whether there was one.
func (t *Table) Early(number int) bool {
	r, ok := t.early[number]
	delete(t.early, number)
	return ok && r.source == t.Owner(number) && t.Returned(number, r.why)
}
