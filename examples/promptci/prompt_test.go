package promptci_test

import (
	"os"
	"testing"
	"time"

	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/context/contexttest"
	"github.com/offshoot-sdk/offshoot/examples/promptci"
	"github.com/offshoot-sdk/offshoot/session"
)

var (
	topKey   = session.Must(session.Parse("agent:main:main"))
	groupKey = session.Must(session.Parse("agent:main:whatsapp:group:120363040000000000"))
	childKey = session.Must(
		session.Parse("agent:main:subagent:6f1c2a52-7d1c-4f7e-9a30-0d6f5b0e3c11"),
	)
	siblingKey = session.Must(
		session.Parse("agent:main:subagent:11c1fb0a-92de-4c5e-8a43-7b0f2f9d6a55"),
	)
	writerKey = session.Must(
		session.Parse("agent:writer:subagent:0f5ad1ee-4a6b-4c7f-8f5b-1f1f6c1d2e3a"),
	)
)

// assemble does what the bot does for a turn of a session, at a fixed time.
func assemble(t *testing.T, key session.Key) agentctx.Prompt {
	t.Helper()
	in, err := promptci.Config(os.DirFS("testdata/workspace")).Input(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	in.Now = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	return agentctx.Assemble(in)
}

// The golden files hold the prompts. A change of one is a diff in a review. OFFSHOOT_UPDATE=1
// accepts it.
func TestPrompts(t *testing.T) {
	contexttest.Golden(t, "top", assemble(t, topKey))
	contexttest.Golden(t, "group", assemble(t, groupKey))
	contexttest.Golden(t, "child", assemble(t, childKey))
	contexttest.Golden(t, "writer", assemble(t, writerKey))
}

// No file was cut, and no file is missing.
func TestPromptsAreComplete(t *testing.T) {
	for _, key := range []session.Key{topKey, childKey, writerKey} {
		contexttest.Complete(t, assemble(t, key))
	}
}

// Each kind of session sees exactly these files.
func TestWhoSeesWhat(t *testing.T) {
	contexttest.SeesOnly(
		t, assemble(t, topKey), "AGENTS.md", "SOUL.md", "TOOLS.md", "IDENTITY.md", "USER.md",
		"MEMORY.md",
	)
	contexttest.SeesOnly(t, assemble(t, childKey), "AGENTS.md")
	contexttest.SeesOnly(t, assemble(t, writerKey), "AGENTS.md", "SOUL.md", "TOOLS.md", "IDENTITY.md")
	for _, key := range []session.Key{childKey, writerKey} {
		contexttest.Lacks(t, assemble(t, key), "Wanjiru", "supplier")
	}
}

func TestHouseRulesComeAfterSafety(t *testing.T) {
	contexttest.Order(
		t, assemble(t, topKey), agentctx.SectionIdentity, agentctx.SectionSafety, "house-rules",
		agentctx.SectionRuntime,
	)
	contexttest.Has(t, assemble(t, topKey), "running inside Perch", "Never give a delivery date")
	contexttest.Lacks(t, assemble(t, topKey), "## Heartbeats", "NO_REPLY alone")
}

// The provider's cache serves all children of an agent.
func TestChildrenShareTheCache(t *testing.T) {
	contexttest.SamePrefix(t, assemble(t, childKey), assemble(t, siblingKey))
}

// The linter finds nothing in the workspace.
func TestWorkspace(t *testing.T) {
	contexttest.Clean(t, os.DirFS("testdata/workspace"), promptci.Config(nil).Prompts.Input.Limits)
}
