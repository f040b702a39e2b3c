package launch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/coppice-go/coppice/internal/control"
)

// ParseRanks reads ranks below n, such as 0,3-5, in any order.
func ParseRanks(text string, n int) ([]int, error) {
	var ranks []int
	for _, part := range strings.Split(text, ",") {
		from, to, span := strings.Cut(part, "-")
		first, ok := control.ParseCount(from, 0)
		last, ok2 := first, true
		if span {
			last, ok2 = control.ParseCount(to, 0)
		}
		if !ok || !ok2 || first > last {
			return nil, fmt.Errorf("ranks %q; allowed: ranks and spans of them, such as 0,3-5", text)
		}
		if last >= n {
			return nil, fmt.Errorf("ranks %q of %d processes; allowed: 0 to %d", text, n, n-1)
		}
		for r := first; r <= last; r++ {
			ranks = append(ranks, r)
		}
	}
	slices.Sort(ranks)
	return slices.Compact(ranks), nil
}

// rankList formats ranks in order as ParseRanks reads them, with spaces: 0, 3-5.
func rankList(ranks []int) string {
	var b strings.Builder
	for i := 0; i < len(ranks); {
		last := i
		for last+1 < len(ranks) && ranks[last+1] == ranks[last]+1 {
			last++
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(strconv.Itoa(ranks[i]))
		switch {
		case last == i+1:
			b.WriteString(", " + strconv.Itoa(ranks[last]))
		case last > i:
			b.WriteString("-" + strconv.Itoa(ranks[last]))
		}
		i = last + 1
	}
	return b.String()
}
