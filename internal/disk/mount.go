package disk

import (
	"path/filepath"
	"strings"
	"sync"
)

var (
	mountMu sync.RWMutex
	mounts  = make(map[string]FS)
)

// Mount makes fsys serve a directory and everything below it, in this process alone, until unmount
// is called. It is for tests: a store that is opened by its path is then on a disk that can fail or
// lose power. Mount may be called from several goroutines at once.
func Mount(dir string, fsys FS) (unmount func()) {
	dir = filepath.Clean(dir)
	mountMu.Lock()
	defer mountMu.Unlock()
	mounts[dir] = fsys
	return func() {
		mountMu.Lock()
		defer mountMu.Unlock()
		delete(mounts, dir)
	}
}

// At returns the file system that serves a path: the innermost one that is mounted there, else the
// operating system's.
func At(path string) FS {
	mountMu.RLock()
	defer mountMu.RUnlock()
	if len(mounts) == 0 {
		return OS()
	}
	best, fsys := "", OS()
	for dir, m := range mounts {
		rest, below := strings.CutPrefix(filepath.Clean(path), dir)
		if below && (rest == "" || rest[0] == filepath.Separator) && len(dir) > len(best) {
			best, fsys = dir, m
		}
	}
	return fsys
}
