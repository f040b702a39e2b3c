//go:build unix

package tpch

import (
	"path/filepath"
	"syscall"
	"testing"
)

func TestPipesAreNoFiles(t *testing.T) {
	for _, name := range []string{"customer.tbl", "customer.parquet"} {
		pipe := filepath.Join(t.TempDir(), name)
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := loadAll(t, filepath.Dir(pipe), 1); err == nil || err.Error() != pipe+" is not a file; allowed: a file" {
			t.Error(err)
		}
	}
}
