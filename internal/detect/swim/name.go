package swim

import (
	"fmt"
	"strconv"
	"strings"
)

// name is what a process is called among the members: a later incarnation is
// another member, so that nothing said of one holds for the other.
func name(rank int, incarnation uint64) string {
	return strconv.Itoa(rank) + "." + strconv.FormatUint(incarnation, 10)
}

// parseName reads a name. There is one name for each process: no other way to
// write the same numbers passes.
func parseName(text string) (rank int, incarnation uint64, err error) {
	left, right, _ := strings.Cut(text, ".")
	rank, errRank := strconv.Atoi(left)
	incarnation, errIncarnation := strconv.ParseUint(right, 10, 64)
	if errRank != nil || errIncarnation != nil || rank < 0 || rank >= rankMax || name(rank, incarnation) != text {
		return 0, 0, fmt.Errorf("member %q; allowed: RANK.INCARNATION", text)
	}
	return rank, incarnation, nil
}
