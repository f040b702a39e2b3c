package node

import "testing"

// TestEnvelopesAreWhatTheyWere: envelopes survive encoding, though an epoch shares words with the size
// and the kind.
func TestEnvelopesAreWhatTheyWere(t *testing.T) {
	for _, epoch := range []uint32{0, 1, 1<<24 - 1, 1 << 24, 1<<32 - 1} {
		for _, size := range []uint64{0, 1, sizeMax} {
			e := envelope{
				scope: scope{group: 1<<64 - 2, epoch: epoch}, seq: 3, size: size, sign: 4, extra: 5, from: 6, to: 7,
				plan: Plan{op: opScan, root: 8, fixArg: 9}, kind: 0xfe, round: 0xfffd,
			}
			var b [envelopeLen]byte
			e.put(b[:])
			if got := parseEnvelope(b[:]); got != e {
				t.Errorf("%+v became %+v", e, got)
			}
		}
	}
}
