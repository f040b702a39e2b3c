package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/coppice-go/coppice/internal/control"
)

type membersCmd struct {
	jobFlag
	Watch bool `short:"w" help:"Go on with what happens, until the job ends."`
	JSON  bool `name:"json" help:"Print JSON; with --watch one document a line, for every change."`
}

func (m *membersCmd) Run(c *console) error {
	dir, err := m.find()
	if err != nil {
		return err
	}
	r, begun := newRoster(control.JobName(dir)), false
	for e, err := range control.Watch(context.Background(), dir) {
		if err != nil {
			return err
		}
		news := r.learn(e)
		switch {
		case e.Type == control.EventStatus:
			begun = true
			if err := m.show(c, r, ""); err != nil || !m.Watch {
				return err
			}
		case begun && news != "":
			if err := m.show(c, r, e.Time.Local().Format("15:04:05.000")+"  "+news); err != nil {
				return err
			}
		}
	}
	if !begun {
		return errors.New("the job ended before it told who is there")
	}
	return nil
}

// show prints what is known; news is what changed, "" the first time.
func (m *membersCmd) show(c *console, r *roster, news string) error {
	if news != "" {
		r.news = append(r.news, news)
		r.news = r.news[max(0, len(r.news)-newsShown):]
	}
	switch {
	case m.JSON && m.Watch:
		line, err := json.Marshal(r.report(news))
		if err != nil {
			return err
		}
		return c.print(func(w *bufio.Writer) { w.Write(append(line, '\n')) })
	case m.JSON:
		return c.printJSON(r.report(""))
	case m.Watch && isTerminal(c.stdout):
		return c.print(func(w *bufio.Writer) {
			fmt.Fprint(w, "\x1b[H\x1b[2J") // from the top of an empty screen
			r.write(w)
			fmt.Fprintf(w, "\n%s\n", strings.Join(r.news, "\n"))
		})
	case news != "":
		return c.print(func(w *bufio.Writer) { fmt.Fprintln(w, news) })
	}
	return c.print(r.write)
}

// newsShown is how many of the latest changes are shown below the table.
const newsShown = 10

// write prints the roster for people.
func (r *roster) write(w *bufio.Writer) {
	report := r.report("")
	view := "no view told yet"
	if report.View != nil {
		view = fmt.Sprintf("view %d", *report.View)
	}
	switch report.Ended {
	case "":
	case wellEnded:
		view = "ended well; " + view
	default:
		view = "ended, " + report.Ended + "; " + view
	}
	fmt.Fprintf(w, "job %s: %s, %s, %d dead\n", r.job, view, countOf(len(report.Members), "process", "processes"), len(report.Dead))
	if !report.Began.IsZero() {
		fmt.Fprintln(w, aboutText(report.About, len(report.Command)))
	}
	fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "id\tincarnation\thost\tpid\tstate\ttasks")
	row := func(p memberReport, state string) {
		fmt.Fprintf(table, "%d\t%d\t%s\t%s\t%s\t%s\n", p.ID, p.Incarnation, dash(p.Host), number0(p.Pid), state, taskList(p.Tasks))
	}
	for _, p := range report.Members {
		state := string(p.State)
		if p.State == control.Returned && len(p.Tasks) == 0 {
			state = "spare" // it has no tasks, and takes some over if another process dies
		}
		if r.view != nil && !p.InView && p.State != ended {
			state += ", not in the view"
		}
		row(p, state)
	}
	for _, p := range report.Dead {
		state := "dead: " + p.How
		if !p.Certain {
			state = "suspected: " + p.How
		}
		if p.InView {
			state += ", still in the view"
		}
		row(p, state)
	}
	table.Flush()
}

func dash(text string) string { return cmp.Or(text, "-") }

// number0 formats a number, and 0 as unknown.
func number0(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

func countOf(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// taskList formats tasks in order, ranges of them as 3-5.
func taskList(tasks []int) string {
	var parts []string
	for i := 0; i < len(tasks); {
		last := i
		for last+1 < len(tasks) && tasks[last+1] == tasks[last]+1 {
			last++
		}
		if last > i {
			parts = append(parts, fmt.Sprintf("%d-%d", tasks[i], tasks[last]))
		} else {
			parts = append(parts, fmt.Sprint(tasks[i]))
		}
		i = last + 1
	}
	return dash(strings.Join(parts, ", "))
}
