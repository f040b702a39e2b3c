package main

import (
	"testing"

	"github.com/coppice-go/coppice/coppicetest"
)

// TestEveryKillPoint kills a process at every operation of every task, and at every step of it.
func TestEveryKillPoint(t *testing.T) {
	s := settings{points: 400, k: 3, dims: 2, rounds: 10}
	coppicetest.Survives(t, 4, s.cluster)
}
