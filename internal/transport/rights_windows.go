package transport

import "os"

func fileRights([]*os.File) []byte { return nil }

func filesOf([]byte) []*os.File { return nil }
