// Package extent decides how much of a test runs: by default a quick part, in CI (bash .ci/run full)
// all of it.
package extent

import (
	"flag"
	"os"
	"strconv"
	"testing"
)

// Variable is the environment variable that, if set, asks for all of every test.
const Variable = "COPPICE_FULL"

// Full reports whether tests should run in full: the environment asks for it and -short does not forbid
// it.
func Full() bool { return os.Getenv(Variable) != "" && !testing.Short() }

// Of returns all if the environment asks for it, and otherwise few, which it logs.
func Of[N int | uint64](t testing.TB, few, all N) N {
	t.Helper()
	if Full() {
		return all
	}
	t.Logf("%d of %d; all of it: %s=1 go test -run '^%s$', or bash .ci/run full", few, all, Variable, t.Name())
	return few
}

// Few reports whether a test should leave out what is slow, and if so logs it.
func Few(t testing.TB, left string) bool {
	t.Helper()
	if Full() {
		return false
	}
	t.Logf("left out: %s; with it: %s=1 go test -run '^%s$', or bash .ci/run full", left, Variable, t.Name())
	return true
}

// SideBySide lets n parallel tests run at once, unless -parallel says otherwise. The TestMain of a
// package whose parallel tests mostly wait calls it: the default, one per processor, would leave the
// processors idle.
func SideBySide(n int) {
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(err)
	}
}
