// Command pagerank ranks pages by the links between them: each task has some of the pages, and in each round sends the others what
// its pages give to theirs. Save before each round lets a task that is run again continue there.
//
//	go run ./cmd/coppice run -n 4 -- go run ./examples/pagerank
//	go run ./examples/pagerank
package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/coppice-go/coppice"
)

const (
	pages   = 10_000
	rounds  = 20
	damping = 0.85
)

func main() {
	coppice.Main(func(ctx context.Context, t *coppice.Task) error {
		ranks, err := rank(ctx, t, pages, rounds)
		if err != nil {
			return err
		}
		best := coppice.At[float64]{Rank: -1}
		for i, r := range ranks {
			best = coppice.MaxAt(best, coppice.At[float64]{Value: r, Rank: t.Rank() + i*t.Size()})
		}
		best, err = coppice.ReduceFunc(ctx, t, best, coppice.MaxAt)
		if err == nil && t.Rank() == 0 {
			fmt.Printf("page %d of %d has the highest rank, %.6f\n", best.Rank, pages, best.Value)
		}
		return err
	})
}

// state is all that changes from round to round.
type state struct {
	Round int
	Ranks []float64 // of the task's pages
}

// share is what a page gives to another one: the number of that page at its task, and the rank.
type share struct {
	Page int
	Rank float64
}

// rank returns the ranks of the task's pages: i, i+P, i+2P, … for task i of P.
func rank(ctx context.Context, t *coppice.Task, pages, rounds int) ([]float64, error) {
	// The links stand for data that is read from outside, once.
	links, err := coppice.Once(ctx, t, func(context.Context) ([][]int, error) { return read(t.Rank(), t.Size(), pages), nil })
	if err != nil {
		return nil, err
	}
	s := state{Ranks: slices.Repeat([]float64{1 / float64(pages)}, len(links))}
	for ; s.Round < rounds; s.Round++ {
		if err := coppice.Save(ctx, t, &s); err != nil {
			return nil, err
		}
		given := make([][]share, t.Size())
		for i, to := range links {
			for _, page := range to {
				owner := page % t.Size()
				given[owner] = append(given[owner], share{page / t.Size(), s.Ranks[i] / float64(len(to))})
			}
		}
		got, err := coppice.AllToAll(ctx, t, given)
		if err != nil {
			return nil, err
		}
		s.Ranks = slices.Repeat([]float64{(1 - damping) / float64(pages)}, len(links))
		for _, from := range got {
			for _, g := range from {
				s.Ranks[g.Page] += damping * g.Rank
			}
		}
	}
	return s.Ranks, nil
}

// read returns, for each page of a task, the pages that it links to.
func read(task, tasks, pages int) (links [][]int) {
	for page := task; page < pages; page += tasks {
		to := []int{(page + 1) % pages}
		for n := page; n > 0; n /= 3 { // small numbers have many links
			to = append(to, n*7%pages)
		}
		links = append(links, to)
	}
	return links
}
