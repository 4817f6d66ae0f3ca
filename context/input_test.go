package agentctx_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	agentctx "github.com/offshoot-sdk/offshoot/context"
)

// C2: one call gives the runtime line the host, the system and the directory.
func TestHostEnv(t *testing.T) {
	repo := t.TempDir()
	dir := filepath.Join(repo, "a", "b")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	require.NoError(t, os.Mkdir(filepath.Join(repo, ".git"), 0o700))
	e := agentctx.HostEnv(dir)
	require.Equal(t, repo, e.Repo)
	require.Equal(t, dir, e.Dir)
	line, _ := agentctx.Assemble(
		agentctx.Input{Session: mainKey, Env: e},
	).Section(agentctx.SectionRuntime)
	require.Contains(t, line.Text, "os="+runtime.GOOS+" | arch="+runtime.GOARCH+" | dir=")
	host, err := os.Hostname()
	require.NoError(t, err)
	require.Contains(t, line.Text, host)

	here, err := os.Getwd()
	require.NoError(t, err)
	require.Equal(t, here, agentctx.HostEnv("").Dir)
}

// A sandboxed session works in the directory inside the sandbox.
func TestRuntimeLineHasTheDirectoryInside(t *testing.T) {
	in := agentctx.Input{Session: mainKey, Env: agentctx.Env{Dir: "/work"}}
	line := func() string {
		s, _ := agentctx.Assemble(in).Section(agentctx.SectionRuntime)
		return s.Text
	}
	require.Contains(t, line(), "dir=/work")
	in.Sandbox = agentctx.Sandbox{Enabled: true, Dir: "/box"}
	require.Contains(t, line(), "dir=/box")
	require.NotContains(t, line(), "/work")
	require.NotContains(t, line(), "thinking", "the level is not known")
}

// C2: in a sandbox, no section names a directory of the host as the working directory, or has files
// created where they cannot be written.
func TestWorkspaceOfASandbox(t *testing.T) {
	for _, access := range []string{"", "none", "ro", "rw"} {
		for _, dir := range []string{"", "/box"} {
			in := agentctx.Input{
				Session: mainKey, Env: agentctx.Env{Dir: "/host"}, Tools: toolsNamed("read"),
				Sandbox: agentctx.Sandbox{Enabled: true, Dir: dir, Access: access},
			}
			p := agentctx.Assemble(in)
			require.NotContains(t, p.String(), "/host", "%q %q", access, dir)
			s, _ := p.Section(agentctx.SectionWorkspace)
			require.Equal(t, dir != "", strings.Contains(s.Text, "`/box`"))
			require.Contains(t, s.Text, "Relative paths in tool calls start")
			require.Equal(t, dir != "" && access != "ro",
				strings.Contains(s.Text, "create and change files there"))
			in.Sandbox.Enabled = false
			s, _ = agentctx.Assemble(in).Section(agentctx.SectionWorkspace)
			require.Contains(t, s.Text, "`/host`. Relative paths in tool calls start there; create")
		}
	}
}
