package extent

import "testing"

func TestEnvironmentDecidesHowMuchIsRun(t *testing.T) {
	t.Setenv(Variable, "")
	if n := Of(t, 3, 10); n != 3 || !Few(t, "the rest") {
		t.Errorf("by default: %d of 10, few: %v", n, Few(t, "the rest"))
	}
	if testing.Short() {
		return
	}
	t.Setenv(Variable, "1")
	if n := Of(t, 3, 10); n != 10 || Few(t, "the rest") {
		t.Errorf("with %s: %d of 10, few: %v", Variable, n, Few(t, "the rest"))
	}
}
