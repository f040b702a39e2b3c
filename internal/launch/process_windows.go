package launch

import (
	"os"
	"syscall"
)

func attributes() *syscall.SysProcAttr { return nil }

func peak(*syscall.Rusage) int64 { return 0 }

// These need Unix.

func foreground(*os.File) (is, terminal bool) { return false, false }

func checkFiles(int, int) error { return nil }

func checkProcesses(int) error { return nil }
