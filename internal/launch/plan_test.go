package launch

import (
	"errors"
	"strings"
	"testing"
)

// TestWindowsIsRefusedInOneLine: as bad input that says what is needed.
func TestWindowsIsRefusedInOneLine(t *testing.T) {
	err := supported("windows")
	if !errors.As(err, new(InputError)) || !strings.Contains(err.Error(), "needs Linux or macOS") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%T: %v", err, err)
	}
	for _, goos := range []string{"linux", "darwin", "freebsd"} {
		if err := supported(goos); err != nil {
			t.Errorf("%s: %v", goos, err)
		}
	}
}
