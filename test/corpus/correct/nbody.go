package correct

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"time"

	"github.com/coppice-go/coppice"
)

type particle struct{ X, Y, VX, VY, Mass float64 }

// nbody moves particles that attract each other; each task has some, and gets those of all.
func nbody(ctx context.Context, t *coppice.Task) (any, error) {
	s := struct {
		Step int
		Own  []particle
	}{}
	random := rand.New(rand.NewPCG(5, uint64(t.Rank())))
	for range 4 {
		s.Own = append(s.Own, particle{X: random.Float64(), Y: random.Float64(), Mass: 1})
	}
	began := time.Now()
	for ; s.Step < 4; s.Step++ {
		if err := coppice.Save(ctx, t, &s); err != nil {
			return nil, err
		}
		all, err := coppice.AllGather(ctx, t, s.Own)
		if err != nil {
			return nil, err
		}
		for i := range s.Own {
			p := &s.Own[i]
			for _, others := range all {
				for _, q := range others {
					dx, dy := q.X-p.X, q.Y-p.Y
					d := math.Sqrt(dx*dx+dy*dy) + 0.01
					p.VX += q.Mass * dx / (d * d * d) * 1e-3
					p.VY += q.Mass * dy / (d * d * d) * 1e-3
				}
			}
		}
		for i := range s.Own {
			s.Own[i].X += s.Own[i].VX
			s.Own[i].Y += s.Own[i].VY
		}
	}
	if t.Rank() == 0 {
		fmt.Fprintln(os.Stderr, "steps:", s.Step, "in", time.Since(began))
	}
	return s.Own, nil
}
