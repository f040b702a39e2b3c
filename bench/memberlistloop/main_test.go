package main

import (
	"strings"
	"testing"
	"time"
)

func TestTheDeadIsRemovedByAll(t *testing.T) {
	if testing.Short() {
		t.Skip("memberlist takes seconds; runs without -short")
	}
	t.Parallel()
	// Its preset probes each second and suspects for three seconds before it removes.
	if took, err := measure(membersMin); err != nil || took < 2*time.Second {
		t.Errorf("%v, %v; want 2 s or more", took, err)
	}
}

func TestBadNumbersAreRefused(t *testing.T) {
	for _, args := range []string{"", "2", "x", "4097", "3 3"} {
		if err := run(strings.Fields(args)); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}
