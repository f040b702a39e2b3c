package protocol_test

import (
	"testing"

	"github.com/coppice-go/coppice/protocol"
)

// The first outputs of SplitMix64 with seed 1234567, as its reference
// implementation gives them.
func TestMixIsSplitMix64(t *testing.T) {
	for i, want := range []uint64{6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821} {
		if got := protocol.Mix(1234567, uint64(i)); got != want {
			t.Errorf("number %d is %d, want %d", i, got, want)
		}
	}
}

func TestBelowIsEven(t *testing.T) {
	const n, draws = 7, 70_000
	var hit [n]int
	for i := range uint64(draws) {
		hit[protocol.Below(protocol.Mix(3, i), n)]++
	}
	for v, h := range hit {
		if h < draws/n*95/100 || h > draws/n*105/100 {
			t.Errorf("%d came %d times of %d", v, h, draws)
		}
	}
}

func TestKindsHaveNames(t *testing.T) {
	for k, want := range map[protocol.Kind]string{protocol.Idle: "idle", protocol.Correct: "correct", protocol.Done: "done", 200: "Kind(200)"} {
		if got := k.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if !protocol.Send.Sends() || !protocol.Correct.Sends() || protocol.Deliver.Sends() {
		t.Error("Sends is wrong")
	}
}
