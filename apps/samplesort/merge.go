package samplesort

import "slices"

// merged merges sorted runs, two neighbours at a time, until one is left. The runs stay as they are, unless
// they lie in spare. The result is in room or spare, or is the only run; if room or spare is too short,
// merged allocates.
func merged[E any](runs [][]E, room, spare []E, two func(dst, a, b []E)) []E {
	runs = slices.DeleteFunc(slices.Clone(runs), func(run []E) bool { return len(run) == 0 })
	total := 0
	for _, run := range runs {
		total += len(run)
	}
	for len(runs) > 1 {
		if cap(room) < total {
			room = make([]E, total)
		}
		room = room[:total]
		at := 0
		for i := 0; i < len(runs); i += 2 {
			var b []E
			if i+1 < len(runs) {
				b = runs[i+1]
			}
			dst := room[at:][:len(runs[i])+len(b)]
			two(dst, runs[i], b) // also a run without a partner: room is reused
			runs[i/2] = dst
			at += len(dst)
		}
		runs = runs[:(len(runs)+1)/2]
		room, spare = spare, room
	}
	if len(runs) == 0 {
		return nil
	}
	return runs[0]
}
