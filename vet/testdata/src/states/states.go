package states

import (
	"context"
	"fmt"
	"time"

	"github.com/coppice-go/coppice"
)

type state struct{ Round, Sum int }

func logged(ctx context.Context, t *coppice.Task) (int, error) {
	var s state
	last, lines := time.Now(), 0
	for ; s.Round < 5; s.Round++ {
		if err := coppice.Save(ctx, t, &s); err != nil {
			return 0, err
		}
		if time.Since(last) > time.Second {
			lines++
			fmt.Println(lines, s.Round)
			last = time.Now()
		}
		v, err := coppice.AllReduce(ctx, t, 1, coppice.Sum)
		if err != nil {
			return 0, err
		}
		s.Sum += v
	}
	return s.Sum, nil
}

func converges(ctx context.Context, t *coppice.Task) (int, error) {
	var s state
	for change := 1; change > 0; s.Round++ {
		if err := coppice.Save(ctx, t, &s); err != nil {
			return 0, err
		}
		var err error
		if change, err = coppice.AllReduce(ctx, t, 3-s.Round, coppice.Sum); err != nil {
			return 0, err
		}
	}
	return s.Round, nil
}

func counted(ctx context.Context, t *coppice.Task) (map[int]int, error) {
	var s state
	seen := map[int]int{}
	for ; s.Round < 5; s.Round++ {
		if err := coppice.Save(ctx, t, &s); err != nil {
			return nil, err
		}
		v, err := coppice.AllReduce(ctx, t, s.Round, coppice.Sum)
		if err != nil {
			return nil, err
		}
		seen[v] = seen[v] + 1 // want `memory that is changed here was made before Save .*\[state\]`
	}
	return seen, nil
}

func buffered(ctx context.Context, t *coppice.Task) (int, error) {
	var s state
	var room []int
	for ; s.Round < 5; s.Round++ {
		if err := coppice.Save(ctx, t, &s); err != nil {
			return 0, err
		}
		room = room[:0]
		for i := range 3 {
			room = append(room, i*s.Round)
		}
		all, err := coppice.AllReduce(ctx, t, room, coppice.Sum, coppice.Into(room))
		if err != nil {
			return 0, err
		}
		s.Sum += all[0]
	}
	return s.Sum, nil
}

func drawn(ctx context.Context, t *coppice.Task) (int, error) {
	var s state
	random := t.Rand() // want `the result of Task.Rand is used after Save`
	for ; s.Round < 5; s.Round++ {
		if err := coppice.Save(ctx, t, &s); err != nil {
			return 0, err
		}
		s.Sum += random.IntN(3)
	}
	return s.Sum, nil
}
