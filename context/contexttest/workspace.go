package contexttest

import (
	"strings"
	"testing/fstest"

	agentctx "github.com/offshoot-sdk/offshoot/context"
)

// Workspace returns a file system with the eight core files, each with a line that names it, and
// with the changes applied: a text replaces or adds the file of that name, "" removes it.
func Workspace(changes map[string]string) fstest.MapFS {
	files := map[string]string{}
	for _, name := range agentctx.CoreFiles() {
		files[name] = "This is " + name + ".\n"
	}
	for name, text := range changes {
		if files[name] = text; text == "" {
			delete(files, name)
		}
	}
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	}
	return fsys
}

// Text returns lines of n bytes of ASCII in all, for tests of files that are over a limit. A
// negative n counts as 0.
func Text(n int) string {
	var b strings.Builder
	for i := 1; b.Len() < n; i++ {
		b.WriteString(strings.Repeat("x", i%60+1) + "\n")
	}
	return b.String()[:max(n, 0)]
}
