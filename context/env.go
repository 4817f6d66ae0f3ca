package agentctx

import (
	"os"
	"path/filepath"
	"runtime"
)

// HostEnv returns what this process knows about the place where it runs: Host, OS, Arch, and Dir
// with the Repo that it is in. dir is the working directory of the tools; "": that of the process.
// What cannot be found out is left blank.
//
// An Env is not filled in unless the caller does it, so that a prompt, and a golden file of it, is
// the same on every machine.
func HostEnv(dir string) Env {
	e := Env{OS: runtime.GOOS, Arch: runtime.GOARCH}
	if host, err := os.Hostname(); err == nil {
		e.Host = host
	}
	if abs, err := filepath.Abs(dir); err == nil {
		e.Dir, e.Repo = abs, repoOf(abs)
	}
	return e
}

// repoOf returns the nearest directory from dir upwards that holds a Git repository, or "".
func repoOf(dir string) string {
	for {
		if _, err := os.Stat(filepath.Join(dir, ".git")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			return ""
		}
		dir = up
	}
}
