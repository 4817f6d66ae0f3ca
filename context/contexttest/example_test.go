package contexttest_test

import (
	"fmt"
	"os"
	"testing"

	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/context/contexttest"
	"github.com/offshoot-sdk/offshoot/session"
)

// A review of the prompt of a sub-agent, in a test of a bot.
func ExampleGolden() {
	_ = func(t *testing.T) {
		p := agentctx.Assemble(agentctx.Input{
			Session: session.Must(
				session.Parse("agent:main:subagent:6f1c2a52-7d1c-4f7e-9a30-0d6f5b0e3c11"),
			),
			Files: agentctx.LoadWorkspace(os.DirFS("testdata/workspace")),
		})
		// testdata/prompts/child.md; OFFSHOOT_UPDATE=1 accepts a change.
		contexttest.Golden(t, "child", p)
		contexttest.Complete(t, p)
		contexttest.SeesOnly(t, p, "AGENTS.md", "TOOLS.md")
	}
}

func ExampleLint() {
	workspace := contexttest.Workspace(map[string]string{
		"TOOLS.md":     "The vault is at vault.example.\npassword: correct-horse-battery\n",
		"AGENTS.md":    "## Safety\nNo rules.\n",
		"BOOTSTRAP.md": "",
	})
	for _, f := range contexttest.Lint(workspace, agentctx.Limits{}) {
		fmt.Println(f)
	}
	// Output:
	// AGENTS.md:1: "## Safety" is the heading of a section of the prompt; call it something else (heading)
	// TOOLS.md:2: this looks like a password or key; name the place where it is kept instead (secret)
}

func ExampleDiff() {
	fmt.Print(contexttest.Diff("one\ntwo\nthree\n", "one\n2\nthree\n"))
	// Output:
	// @@ -1 +1 @@
	//  one
	// -two
	// +2
	//  three
}
