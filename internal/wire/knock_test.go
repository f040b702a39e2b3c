package wire_test

import (
	"bytes"
	"testing"

	"github.com/coppice-go/coppice/internal/wire"
)

func TestKnock(t *testing.T) {
	k := wire.Knock(key, left.Job)
	if !wire.Knocked(key, left.Job, k) {
		t.Error("is not heard")
	}
	if k == wire.Knock(key, left.Job) {
		t.Error("is always the same")
	}
	if wire.Knocked(key, [16]byte{9}, k) {
		t.Error("is heard by another job")
	}
	if wire.Knocked(bytes.Repeat([]byte("x"), 32), left.Job, k) {
		t.Error("is heard with another key")
	}
	if wire.Knocked(key, left.Job, [wire.KnockLen]byte{}) {
		t.Error("zeroes are heard")
	}
	for i := range k {
		changed := k
		changed[i] ^= 1
		if wire.Knocked(key, left.Job, changed) {
			t.Errorf("is heard with byte %d changed", i)
		}
	}
}
