package runtime

import (
	"slices"
	"testing"
)

// What a process was told of stays what it was told of when an epoch is over.
func TestValuesAreForgottenWithTheirEpoch(t *testing.T) {
	p := &Process{peers: []*peer{{}, {drawn: 3}, {drawn: 5}}}
	for i, epoch := range []uint32{0, 1, 2, 1, 0} {
		p.drew(copyKey{epoch: epoch, key: uint64(i)})
		p.drew(copyKey{epoch: epoch, key: uint64(i)})
	}
	p.dropDrawn(2)
	want := []copyKey{{epoch: 0, key: 0}, {epoch: 2, key: 2}, {epoch: 0, key: 4}}
	if d := &p.epochs.drawn; !slices.Equal(d.all, want) || len(d.known) != 3 || d.known[copyKey{epoch: 1, key: 1}] {
		t.Errorf("known are %v, want %v", d.all, want)
	}
	for i, told := range []int{0, 2, 3} {
		if p.peers[i].drawn != told {
			t.Errorf("process %d was told of %d, want %d", i, p.peers[i].drawn, told)
		}
	}
}
