package vet_test

import (
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/coppice-go/coppice/vet"
)

// TestRules checks what the corpus does not reach: comments that silence, facts of other packages, and what is no breach.
func TestRules(t *testing.T) {
	for _, name := range []string{"silence", "flows", "partners", "states", "shared", "options"} {
		t.Run(name, func(t *testing.T) { analysistest.Run(t, analysistest.TestData(), vet.Analyzer, name) })
	}
}
