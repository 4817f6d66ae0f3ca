package disk

import (
	"path/filepath"
	"strings"
	"sync"
)

var (
	mountMu sync.RWMutex
	mounted = make(map[string]FS)
)

// Mount has fsys serve a directory and what is below it, in this process alone, until unmount is called. It is for tests: what is opened by
// its path is then on a disk that can fail, or lose its power.
func Mount(dir string, fsys FS) (unmount func()) {
	dir = filepath.Clean(dir)
	mountMu.Lock()
	defer mountMu.Unlock()
	mounted[dir] = fsys
	return func() {
		mountMu.Lock()
		defer mountMu.Unlock()
		delete(mounted, dir)
	}
}

// At returns the file system that serves a path: that of the operating system, unless another one is mounted there.
func At(path string) FS {
	mountMu.RLock()
	defer mountMu.RUnlock()
	if len(mounted) == 0 {
		return OS()
	}
	best, fsys := "", OS()
	for dir, m := range mounted {
		rest, below := strings.CutPrefix(filepath.Clean(path), dir)
		if below && (rest == "" || rest[0] == filepath.Separator) && len(dir) > len(best) {
			best, fsys = dir, m
		}
	}
	return fsys
}
