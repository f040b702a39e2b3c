package tpch

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/apps/tpch/dbgen"
	"github.com/coppice-go/coppice/coppicetest"
)

// largeVariable names the variable that makes tests check scale 1, too.
const largeVariable = "COPPICE_TPCH"

func day(text string) dbgen.Date {
	d, err := dbgen.ParseDate(text)
	if err != nil {
		panic(err)
	}
	return d
}

var (
	officialQ1 = Q1{day("1998-09-02")}
	officialQ3 = Q3{1, day("1995-03-15")}
	officialQ5 = Q5{2, day("1994-01-01"), day("1995-01-01")}
)

// loadAndAsk loads the task's part of the tables and answers a query.
func loadAndAsk(ctx context.Context, t *coppice.Task, source Source, q Query) (Answer, error) {
	tables, err := source.Load(ctx, t.Rank(), t.Size(), q.Columns())
	if err != nil {
		return Answer{}, err
	}
	if err := source.Check(ctx, t, tables); err != nil {
		return Answer{}, err
	}
	return q.Ask(ctx, t, tables, source.Bounds(), func(string) {})
}

// answers runs a query in a job and returns the answer, which only task 0 may have.
func answers(t *testing.T, job coppice.Job, source Source, query Query, kills ...string) string {
	t.Helper()
	var mu sync.Mutex
	var csv string
	err := job.Run(coppicetest.WithKills(t.Context(), kills...), func(ctx context.Context, task *coppice.Task) error {
		a, err := loadAndAsk(ctx, task, source, query)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if task.Rank() == 0 {
			csv = a.CSV()
		} else if len(a.Rows) > 0 {
			t.Errorf("task %d has an answer", task.Rank())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return csv
}

// official returns an answer of the official tables.
func official(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name + ".csv")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestAnswersAreTheOfficialOnes(t *testing.T) {
	for _, c := range []struct {
		name  string
		scale Generated
		query Query
	}{
		{"q1_sf0.01", 0.01, officialQ1},
		{"q3_sf0.01", 0.01, officialQ3},
		{"q3_sf0.1", 0.1, officialQ3},
		{"q3_sf1", 1, officialQ3},
		{"q5_sf1", 1, officialQ5},
	} {
		if c.scale == 1 && os.Getenv(largeVariable) == "" {
			t.Logf("not checked: %s; %s=1 does that", c.name, largeVariable)
			continue
		}
		for _, n := range []int{1, 3} {
			if got, want := answers(t, coppice.Job{Local: n}, c.scale, c.query), official(t, c.name); got != want {
				t.Errorf("%s with %d tasks:\n%swant\n%s", c.name, n, got, want)
			}
		}
	}
}

// phases are the operations of query 3, in order.
var phases = []string{"gather", "broadcast", "alltoall", "reduce"}

// TestQ3SurvivesEveryDeath crashes each process in turn, in every phase.
func TestQ3SurvivesEveryDeath(t *testing.T) {
	want := official(t, "q3_sf0.01")
	for n := 2; n <= 5; n++ {
		for victim := range n {
			for _, op := range phases {
				for _, step := range []string{"", "/1", "/2"} {
					kill := fmt.Sprintf("%d@%s#1%s", victim, op, step)
					if got := answers(t, coppice.Job{Local: n}, Generated(0.01), officialQ3, kill); got != want {
						t.Errorf("%d tasks, %s:\n%s", n, kill, got)
					}
				}
			}
		}
	}
}

// TestQ3SurvivesMostDeaths crashes two processes, and all but one, in random phases.
func TestQ3SurvivesMostDeaths(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	want := official(t, "q3_sf0.01")
	for _, n := range []int{3, 4, 8, 8} {
		for _, victims := range []int{2, n - 1} {
			var kill []string
			for _, v := range rng.Perm(n)[:victims] {
				kill = append(kill, fmt.Sprintf("%d@%s#1", v, phases[rng.IntN(len(phases))]))
			}
			if got := answers(t, coppice.Job{Local: n}, Generated(0.01), officialQ3, kill...); got != want {
				t.Errorf("seed %d: %d tasks, %v:\n%s", seed, n, kill, got)
			}
		}
	}
}

func TestOtherQueriesSurviveDeaths(t *testing.T) {
	for _, c := range []struct {
		query Query
		kill  []string
	}{
		{officialQ1, []string{"0@reduce#1", "2@reduce#1/1"}},
		{officialQ5, []string{"0@allgather#1", "1@allgather#2", "2@reduce#1"}},
	} {
		want := answers(t, coppice.Job{Local: 1}, Generated(0.01), c.query)
		if got := answers(t, coppice.Job{Local: 4}, Generated(0.01), c.query, c.kill...); got != want {
			t.Errorf("%T, %v:\n%swant\n%s", c.query, c.kill, got, want)
		}
	}
}

// TestQ3IsWhatANaiveJoinGives compares with all groups, computed in another way.
func TestQ3IsWhatANaiveJoinGives(t *testing.T) {
	tables, err := Generated(0.01).Load(t.Context(), 0, 1, officialQ3.Columns())
	if err != nil {
		t.Fatal(err)
	}
	segment := map[int32]bool{}
	for i, s := range tables.Customers.Segments {
		segment[tables.Customers.Keys[i]] = s == officialQ3.Segment
	}
	groups := map[int64]int64{}
	for i, key := range tables.Orders.Keys {
		for k := tables.Orders.Lines[i]; k < tables.Orders.Lines[i+1]; k++ {
			if segment[tables.Orders.Customers[i]] && tables.Orders.Dates[i] < officialQ3.Date && tables.Lines.Shipped[k] > officialQ3.Date {
				groups[key] += int64(tables.Lines.Prices[k]) * int64(100-tables.Lines.Discounts[k])
			}
		}
	}
	var total int64
	for _, revenue := range groups {
		total += revenue
	}
	if len(groups) != 138 || decimals(total, 4) != "12364206.8366" { // as the official tables have them
		t.Errorf("%d groups, of %s in all", len(groups), decimals(total, 4))
	}
}

func TestEmptyAnswers(t *testing.T) {
	q := Q3{1, 0} // nothing was ordered before that day
	if got := answers(t, coppice.Job{Local: 2}, Generated(0.01), q); strings.Count(got, "\n") != 1 {
		t.Errorf("%q", got)
	}
}

func TestWrongScalesAreRefused(t *testing.T) {
	if _, err := Generated(-1).Load(t.Context(), 0, 1, 0); err == nil {
		t.Error("a scale below 0")
	}
}

func TestDecimals(t *testing.T) {
	for want, n := range map[string]int64{"0.0001": 1, "-0.0100": -100, "12.3456": 123456, "0.0000": 0} {
		if got := decimals(n, 4); got != want {
			t.Errorf("%d: %s; want %s", n, got, want)
		}
	}
	w := Wide{1, 2}
	w.add(Wide{0, 1<<64 - 1})
	if got := w.decimals(2); got != "368934881474191032.33" {
		t.Error(got)
	}
	if !slices.Equal(mergeQ1(nil, nil), nil) {
		t.Error("rows of nothing")
	}
	// Above scale 8000 sums of discounted prices have more than 63 bits.
	row := q1Row{Lines: 1, Discounted: Wide{0, 1 << 63}}
	if got := answerQ1(mergeQ1([]q1Row{row}, []q1Row{row})).Rows[0][4]; got != "1844674407370955.1616" {
		t.Error(got)
	}
}
