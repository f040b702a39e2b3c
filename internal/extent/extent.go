// Package extent decides how much a test runs: by default a part that
// is quick, in CI (bash .ci/run full) all of it.
package extent

import (
	"flag"
	"os"
	"strconv"
	"testing"
)

// Variable asks for all of every test if it is set.
const Variable = "COPPICE_FULL"

// Full reports whether tests are to run all that they have: the environment says so,
// and -short does not say otherwise.
func Full() bool { return os.Getenv(Variable) != "" && !testing.Short() }

// Of returns all if the environment asks for it, and few otherwise, which it logs.
func Of[N int | uint64](t testing.TB, few, all N) N {
	t.Helper()
	if Full() {
		return all
	}
	t.Logf("%d of %d; all of it: %s=1 go test -run '^%s$', or bash .ci/run full", few, all, Variable, t.Name())
	return few
}

// Few reports whether a test is to leave out what is slow, which it logs.
func Few(t testing.TB, left string) bool {
	t.Helper()
	if Full() {
		return false
	}
	t.Logf("left out: %s; with it: %s=1 go test -run '^%s$', or bash .ci/run full", left, Variable, t.Name())
	return true
}

// SideBySide lets n parallel tests run at once, unless -parallel says otherwise: TestMain
// of a package whose parallel tests mostly wait calls it. By default there are as many as
// processors, of which such tests need little.
func SideBySide(n int) {
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(err)
	}
}
