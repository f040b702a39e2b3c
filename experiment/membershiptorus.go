package experiment

import (
	"fmt"
	"math/bits"

	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/model"
	"github.com/coppice-go/coppice/protocol"
)

// Figures 6.1 and 6.2: Blue Gene/L, where a message takes L for each hop on a torus of 8×8×8 nodes a
// midplane. The two midplanes of the thesis, 1,024 nodes, are simulated as a torus of 8×8×16.

func midplanes(nodes int) logp.Torus {
	if nodes <= 512 {
		return logp.Torus{X: 8, Y: 8, Z: 8}
	}
	return logp.Torus{X: 8, Y: 8, Z: 16}
}

// torusSizes returns the powers of two less one failed node: at these sizes a tree with two children is full.
func torusSizes() (list []int) {
	for nodes := 4; nodes <= 1024; nodes *= 2 {
		list = append(list, nodes-1)
	}
	return list
}

// Models of the torus figures, by their place.
const (
	baseModel = iota
	distanceModel
)

func (f *attempt) onTorus(sizes []int, fanout int) *curve {
	m := model.BlueGeneL
	c := &curve{names: []string{"base model", "distance model"}}
	net := func(n int) logp.Network {
		return logp.Network{L: inTicks(m.L), O: leastO, Torus: midplanes(n + 1)}
	}
	f.stabilize(sizes, fanout, m.Ocp, net, c, func(n int) ([]float64, error) {
		torus := midplanes(n + 1)
		far, err := model.StabilizationDistance(fanout, n, func(a, b int) int {
			return torus.Hops(protocol.Rank(a), protocol.Rank(b))
		}, m.L, m.Ocp)
		return []float64{m.Base(fanout, n), far}, err
	})
	return c
}

// torusClaims adds the claims that both figures share.
func (f *Finding) torusClaims(c *curve) {
	end := c.last()
	f.grows("T_s over log N", c.results(), "µs", "")
	f.within("T_s at 1,024 nodes", "hundreds of µs", end.ours, 100, 1000)
	base := end.ours / end.models[baseModel]
	f.shape("the base model", "diverges significantly", fmt.Sprintf("at 1,024 nodes T_s is %.1f times as long", base), base > 1.5, "")
	f.note("Ranks are placed with x growing fastest, then y, then z; how the thesis placed its tasks it does not say. A failed node is the last one.")
}

// upperBound says what the distance model is.
const upperBound = "it adds up the farthest pairs of all levels, which need not be on one path: an upper bound"

// betweenPowers claims how good the distance model is for four children: at powers of four, less the failed
// node, and between them.
func (f *Finding) betweenPowers(c *curve) {
	power := func(n int) bool { return bits.TrailingZeros(uint(n+1))%2 == 0 }
	f.resembles(c, distanceModel, "the distance model at powers of four", "closely approximates", power, 0.1, upperBound)
	under, between := 0, 0
	for _, p := range c.points {
		if !power(p.n) {
			between++
			if p.models[distanceModel] < 0.99*p.ours {
				under++
			}
		}
	}
	f.shape("the distance model between powers of four", "underestimates; not fully explained", fmt.Sprintf("underestimates at %d of %d sizes, at most %s apart", under, between, percent(c.off(distanceModel, everywhere))), under == between,
		"on a torus without contention it is an upper bound: what the thesis saw there is something else, as it suspects")
}

func membershipFig61(f *attempt) {
	c := f.onTorus(torusSizes(), 2)
	f.show(c, 2, 2)
	f.torusClaims(c)
	f.resembles(c, distanceModel, "the distance model", "closely matches", everywhere, 0.1, upperBound)
}

func membershipFig62(f *attempt) {
	c := f.onTorus(torusSizes(), 4)
	f.show(c, 4, 2)
	f.torusClaims(c)
	f.betweenPowers(c)
	two := f.onTorus(torusSizes(), 2)
	ours, binary := c.last(), two.last()
	f.shape("T_s with four children over that with two, 1,024 nodes", "slightly smaller", fmt.Sprintf("%s, by hop counts and height together", text(round(ours.ours/binary.ours))),
		ours.ours < binary.ours, "")
	gain, height := 1-ours.ours/binary.ours, 1-ours.models[baseModel]/binary.models[baseModel]
	f.shape("hop counts reduce the benefit of the lower tree", "to some extent", fmt.Sprintf("%s less, by the base model %s", percent(gain), percent(height)), gain < height, "")
	flat := 0
	for i, p := range c.points[1:] {
		if p.models[baseModel] == c.points[i].models[baseModel] {
			flat++
		}
	}
	f.shape("the base model alternates between increases and flat lines", "alternates", fmt.Sprintf("flat in %d of %d steps", flat, len(c.points)-1), flat > 0 && flat < len(c.points)-1, "")
}
