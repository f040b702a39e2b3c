package collective

import (
	"slices"
	"testing"
)

// Where a task may have its result before all have entered the operation, a part shows it that they have; where it may
// leave before the result is there, a part shows it that the result is there.
func TestAgreedOperationsHaveThePartsThatTheirResultsNeed(t *testing.T) {
	for op, want := range map[Op][]Part{
		0:             {PartItself},
		AllGather:     {PartItself},
		AllToAll:      {PartItself},
		AllReduce:     {PartItself},
		ReduceScatter: {PartItself},
		Broadcast:     {PartUp, PartItself},
		Scatter:       {PartUp, PartItself},
		Scan:          {PartMeet, PartItself},
		ExScan:        {PartMeet, PartItself},
		Gather:        {PartItself, PartDown},
		Reduce:        {PartItself, PartDown},
	} {
		if got := Parts(op); !slices.Equal(got, want) {
			t.Errorf("%v: %v, want %v", op, got, want)
		}
	}
}
