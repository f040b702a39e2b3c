package logp_test

import (
	"testing"

	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/protocol"
)

func TestZZ1(t *testing.T) {
	net := paperNet(9, 1, 1)
	g := group(1 | 1<<4 | 1<<5 | 1<<6 | 1<<7 | 1<<8)
	x := afterGossip(t, g, net, silent{proof(net, 2)})
	n := 0
	x.killings(1, logp.Faults{}, 0, ranks{7, 8}, func(dead group) {
		if stuck := x.all() &^ dead &^ x.seen.ended; stuck != 0 && dead.size() == 2 && n < 6 {
			n++
			t.Log(x.seen.sends[:9], stuck.ranks())
		}
	})
}

func TestZZ2(t *testing.T) {
	for _, p := range []int{8, 9, 10} {
		for _, l := range []protocol.Time{1, 2, 4} {
			net := paperNet(p, l, 1)
			var runs, stuck, enough [11]int
			(group(1)<<p - 2).subsets(func(others group) {
				g := others | 1
				m := g.size()
				if m < 6 {
					return
				}
				x := afterGossip(t, g, net, silent{proof(net, 2)})
				(g &^ 1).upTo(2, func(v group) {
					if v.size() < 2 {
						return
					}
					x.killings(1, logp.Faults{}, 0, v.ranks(), func(dead group) {
						runs[m]++
						if x.all()&^dead&^x.seen.ended != 0 {
							stuck[m]++
							if stuck[m] == 1 {
								t.Log("first", p, l, g.ranks(), dead.ranks(), x.seen.sends[:p], (x.all() &^ dead &^ x.seen.ended).ranks())
							}
						}
					})
				})
			})
			_ = enough
			t.Log(p, l, runs, stuck)
		}
	}
}
