package agentctx_test

import (
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/session"
)

var (
	mainKey  = session.MustParse("agent:main:main")
	childKey = session.MustParse("agent:coder:subagent:6f1c2a52-7d1c-4f7e-9a30-0d6f5b0e3c11")
	noon     = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
)

// workspace returns a file system with the eight core files.
func workspace() fstest.MapFS {
	fsys := fstest.MapFS{}
	for _, name := range agentctx.CoreFiles() {
		fsys[name] = &fstest.MapFile{Data: []byte("text of " + name + "\n")}
	}
	return fsys
}

func ids(p agentctx.Prompt) []string {
	var list []string
	for _, s := range p.Sections {
		list = append(list, s.ID)
	}
	return list
}

func shown(p agentctx.Prompt) []string {
	var list []string
	for _, a := range p.Files {
		if a.Shown() {
			list = append(list, a.Name)
		}
	}
	return list
}

func TestChildSeesInstructionsAndTools(t *testing.T) {
	files := agentctx.LoadWorkspace(workspace())
	require.Len(t, files, 8)
	p := agentctx.Assemble(agentctx.Input{Session: childKey, Files: files, Now: noon})
	assert.Equal(t, agentctx.Minimal, p.Mode)
	assert.Equal(t, []string{"AGENTS.md", "TOOLS.md"}, shown(p))
	assert.Equal(t, []string{"identity", "tooling", "safety", "workspace", "project-context", "subagent-context", "date-and-zone", "runtime"}, ids(p))
	assert.NotContains(t, p.String(), "SOUL.md")

	p = agentctx.Assemble(agentctx.Input{Session: mainKey, Files: files, Now: noon})
	assert.Equal(t, agentctx.CoreFiles(), shown(p))
}
