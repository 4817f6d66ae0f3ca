package attach_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent/internal/attach"
	"github.com/offshoot-sdk/offshoot/session"
)

// Each sample that is broken is found by the audit, and it says where.
func TestAudit(t *testing.T) {
	const dir = ".offshoot/attachments/"
	file := func(name, text string) attach.File {
		return attach.File{Name: name, File: session.File{
			Hash: fmt.Sprintf("%x", sha256.Sum256([]byte(text))), Size: int64(len(text)),
		}}
	}
	owners := map[string][]attach.File{"x": {file("a", "one"), file("b", "")}, "y": nil}
	for name, c := range map[string]struct {
		files map[string]string
		at    string // what is wrong; "": nothing
	}{
		"nothing":  {},
		"another":  {files: map[string]string{"src/a": "one"}},
		"whole":    {files: map[string]string{dir + "x/a": "one", dir + "x/b": "", dir + "x/.manifest.json": ""}},
		"half":     {files: map[string]string{dir + "x/a": "on"}},
		"no owner": {files: map[string]string{dir + "z/a": "one"}, at: dir + "z"},
		"empty, and of none": {
			files: map[string]string{dir + "x/a": "one", dir + "zz/": ""}, at: dir + "zz",
		},
		"missing": {
			files: map[string]string{dir + "x/a": "one", dir + "x/.manifest.json": ""}, at: dir + "x/b",
		},
		"other bytes": {
			files: map[string]string{dir + "x/a": "0ne", dir + "x/b": "", dir + "x/.manifest.json": ""},
			at:    dir + "x/a",
		},
		"a file":       {files: map[string]string{dir + "x": "one"}, at: dir + "x"},
		"beside them":  {files: map[string]string{".offshoot/other/a": "one"}, at: ".offshoot/other"},
		"a file above": {files: map[string]string{".offshoot/a": "one"}, at: ".offshoot/a"},
	} {
		t.Run(name, func(t *testing.T) {
			base := make(fstest.MapFS)
			for path, text := range c.files {
				f := &fstest.MapFile{Data: []byte(text)}
				if path[len(path)-1] == '/' {
					path, f.Mode = path[:len(path)-1], 0o700|fs.ModeDir
				}
				base[path] = f
			}
			err := attach.Audit(base, owners)
			if c.at == "" {
				require.NoError(t, err)
				return
			}
			bad, ok := errors.AsType[*attach.AuditError](err)
			require.True(t, ok, "%v", err)
			require.Equal(t, c.at, bad.Path)
			require.ErrorContains(t, err, c.at)
		})
	}
}
