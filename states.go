package coppice

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coppice-go/coppice/internal/control"
	"github.com/coppice-go/coppice/internal/node"
)

// taskLabel is the profiler label of all goroutines of a task's function. The value is the task's number.
const taskLabel = "coppice task"

// jobLabel is that of all goroutines of the functions of a job: this process may run several. The value counts them.
const jobLabel = "coppice job"

// jobs counts the jobs that this process has run.
var jobs atomic.Uint64

// newJob is the label of a job.
func newJob() string { return strconv.FormatUint(jobs.Add(1), 10) }

// label labels this goroutine, and those that it starts, as a task's. The context labels those to which it is given again.
func label(ctx context.Context, job, task string) context.Context {
	ctx = pprof.WithLabels(ctx, pprof.Labels(jobLabel, job, taskLabel, task))
	pprof.SetGoroutineLabels(ctx)
	return ctx
}

// States implements control.Reporter.
func (m *mediator) States() []control.TaskState {
	m.mu.Lock()
	p := m.p
	m.mu.Unlock()
	if p == nil {
		return nil
	}
	return states(p)
}

// states says what the tasks of a process do: what the runtime knows of those that wait, and where the goroutines of all are.
func states(p *node.Process) (all []control.TaskState) {
	tasks, waiting := p.Waiting()
	places := placesIn(goroutines(), "")
	for _, task := range tasks {
		s := control.TaskState{Task: task, At: places[task]}
		first := len(all)
		for _, w := range waiting {
			if w.Task == task {
				s.Op, s.Number, s.Forked, s.For, s.Tag, s.Seconds = w.Op, w.Number, w.Forked, w.For, w.Tag, w.Since.Seconds()
				all = append(all, s)
				s.At = nil
			}
		}
		if len(all) == first {
			all = append(all, s)
		}
	}
	return all
}

// goroutines is a profile of them in the form for people.
func goroutines() []byte {
	var text bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&text, 1)
	return text.Bytes()
}

// placesLast is how long it counts where tasks wait: who asks has waited much longer.
const placesLast = 100 * time.Millisecond

// where returns what says in which call of an operation a task of a job waits, and at which line.
func where(job string) func(task int, op string) string {
	var mu sync.Mutex
	var seen time.Time
	var places map[int][]string
	return func(task int, op string) (place string) {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(seen) > placesLast { // of many tasks that ask one after the other, the first looks for all
			places, seen = placesIn(goroutines(), job), time.Now()
		}
		for _, p := range places[task] {
			call, _, inside := strings.Cut(p, " at ")
			switch name := call[strings.LastIndexByte(call, '.')+1:]; {
			case !inside:
			case strings.HasPrefix(strings.ToLower(name), op):
				return p
			case place == "":
				place = p
			}
		}
		return place
	}
}

// placesIn finds where the goroutines of tasks are in a profile of goroutines in the form for people: the call of the library that one is in, if it
// is in one, and the line of the program. Of one job, if that is not empty.
func placesIn(profile []byte, job string) map[int][]string {
	places := map[int][]string{}
	for stack := range bytes.SplitSeq(profile, []byte("\n\n")) {
		task, place := -1, ""
		call := ""
		for lines := bufio.NewScanner(bytes.NewReader(stack)); lines.Scan() && place == ""; {
			if l := taskLine.FindStringSubmatch(lines.Text()); l != nil {
				if j := jobLine.FindStringSubmatch(lines.Text()); job == "" || j != nil && j[1] == job {
					task, _ = strconv.Atoi(l[1])
				}
				continue
			}
			f := frameLine.FindStringSubmatch(lines.Text())
			switch {
			case f == nil || task < 0:
			case strings.HasPrefix(f[1], library):
				call = f[1]
			case !standard(f[1], f[2]):
				place = fmt.Sprintf("%s:%s", filepath.Base(f[2]), f[3])
				if call = called(call); call != "" {
					place = call + " at " + place
				}
			}
		}
		if place != "" && !slices.Contains(places[task], place) {
			places[task] = append(places[task], place)
		}
	}
	for _, all := range places {
		slices.Sort(all)
	}
	return places
}

var (
	taskLine  = regexp.MustCompile(`^# labels: .*"` + taskLabel + `":"(\d+)"`)
	jobLine   = regexp.MustCompile(`^# labels: .*"` + jobLabel + `":"(\d+)"`)
	frameLine = regexp.MustCompile(`^#\t0x[0-9a-f]+\t(\S+)\+0x[0-9a-f]+\s+(.+):(\d+)$`)
)

// library is what the names of functions of the library begin with.
const library = "github.com/coppice-go/coppice."

// called is the name of a call of the library as users write it: AllReduce for coppice.AllReduce[...].
func called(function string) string {
	name := brackets.ReplaceAllString(strings.TrimPrefix(function, library), "")
	if name = strings.NewReplacer("(*", "", ")", "").Replace(name); !exported.MatchString(name) {
		return ""
	}
	return name
}

var (
	brackets = regexp.MustCompile(`\[[^\]]*\]`)
	exported = regexp.MustCompile(`^[A-Z]\w*(\.[A-Z]\w*)?$`)
)

// standard reports whether a function is of the standard library, or below the library.
func standard(function, file string) bool {
	if strings.HasPrefix(function, library[:len(library)-1]+"/internal/") {
		return true
	}
	of := runtime.FuncForPC(reflect.ValueOf(runtime.GC).Pointer())
	where, _ := of.FileLine(of.Entry())
	if root := strings.TrimSuffix(where, "runtime/"+filepath.Base(where)); root != "" {
		return strings.HasPrefix(file, root)
	}
	if info, ok := debug.ReadBuildInfo(); ok && strings.HasPrefix(function, info.Main.Path) { // built with -trimpath
		return false
	}
	first, _, _ := strings.Cut(function, "/")
	if first == function {
		first, _, _ = strings.Cut(function, ".")
	}
	return first != "main" && !strings.Contains(first, ".")
}
