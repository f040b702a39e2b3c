package control

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// homeDir is in the home directory of a user, for the key of jobs on several hosts that have no launcher.
const homeDir = ".coppice"

// homeWait is how long a file that another host has created may not be visible on this host: network file systems cache
// what they know.
const homeWait = 5 * time.Second

// homeKey returns the key in the user's home directory. The first process that needs it creates it, on whichever host: only one process succeeds in
// creating a link, and the link has its content from the start.
func homeKey(home string) (key []byte, file string, err error) {
	dir := filepath.Join(home, homeDir)
	file = filepath.Join(dir, keyName)
	if err := ensureDir(dir); err != nil {
		return nil, "", fmt.Errorf("key of jobs on several nodes: %w", err)
	}
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		key, err = readPrivate(file)
		if !errors.Is(err, fs.ErrNotExist) || time.Since(began) > homeWait {
			break
		}
		if err = writeKey(dir, newKey(), linkSynced); err != nil && !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	if err == nil && len(key) < keyMin {
		err = fmt.Errorf("%s: a key of %d bytes; allowed: %d or more (remove the file, and it is made again)", file, len(key), keyMin)
	}
	if err != nil {
		return nil, "", fmt.Errorf("key of jobs on several nodes: %w", err)
	}
	return key, file, nil
}

// linkSynced gives a file another name, unless there is a file of that name. Then both are on the disk.
func linkSynced(from, to string) error {
	if err := syncFile(from); err != nil {
		return err
	}
	if err := os.Link(from, to); err != nil {
		return err
	}
	_ = syncFile(filepath.Dir(to)) // some file systems cannot
	return nil
}

func syncFile(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
