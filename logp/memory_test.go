package logp_test

import (
	"runtime"
	"testing"

	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
	"github.com/coppice-go/coppice/topology"
)

// TestBytesPerProcess: an engine holds less than 120 bytes a process after runs with 1% faults. That is its
// peak, since it keeps its memory.
func TestBytesPerProcess(t *testing.T) {
	const p, bytesMax = 1 << 18, 120
	tree, err := topology.Binomial(p, topology.Interleaved)
	if err != nil {
		t.Fatal(err)
	}
	machine, err := broadcast.New(broadcast.Config{P: p, Spread: &broadcast.Tree{Tree: tree}, Synchronized: true, Start: 4 * 18}, &broadcast.Checked{})
	if err != nil {
		t.Fatal(err)
	}
	var failed []protocol.Rank
	for r := protocol.Rank(50); r < p; r += 100 {
		failed = append(failed, r)
	}
	before := liveHeap()
	e, err := logp.NewEngine(machine, logp.Network{P: p, L: 2, O: 1})
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(2) {
		if _, err := e.Run(seed, logp.Faults{Failed: failed}); err != nil {
			t.Fatal(err)
		}
	}
	bytes := float64(liveHeap()-before) / p
	runtime.KeepAlive(e)
	t.Logf("%.1f bytes a process", bytes)
	if bytes > bytesMax {
		t.Errorf("%.1f bytes a process, want at most %d", bytes, bytesMax)
	}
}

func liveHeap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
