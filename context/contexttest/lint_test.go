package contexttest_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/context/contexttest"
)

// lintWorkspace returns the findings in a workspace of which some files were changed.
func lintWorkspace(changes map[string]string) []string {
	// A workspace in use: no BOOTSTRAP.md.
	all := map[string]string{"BOOTSTRAP.md": ""}
	maps.Copy(all, changes)
	var list []string
	for _, f := range contexttest.Lint(contexttest.Workspace(all), agentctx.Limits{}) {
		list = append(list, f.String())
	}
	return list
}

func TestLintOfAHealthyWorkspace(t *testing.T) {
	assert.Empty(t, lintWorkspace(nil))
	assert.Empty(t, lintWorkspace(map[string]string{
		"AGENTS.md": "# Agents\n\n## How to work\nAsk for the token when you need it. The password: see the vault.\nemoji 👩‍👩‍👧 and é ❤️\n",
		"TOOLS.md":  "ssh ada@host, https://example.org/x?y=1, ${API_KEY}, token: <your token here>\n",
	}))
	for _, f := range contexttest.Lint(agentctx.Templates(), agentctx.Limits{}) {
		t.Errorf("our own templates: %s", f)
	}
}

func TestLintFindings(t *testing.T) {
	for want, changes := range map[string]map[string]string{
		"SOUL.md: there is no such file; write it, if need be empty, or have agentctx.Seed make it from its template (missing)": {"SOUL.md": ""},
		"TOOLS.md: missing: it is not valid UTF-8 text (unread)":                                                                {"TOOLS.md": "\xff"},
		"AGENTS.md: cut: 20001 runes, over the file limit of 20000 (oversize)":                                                  {"AGENTS.md": contexttest.Text(20_001)},
		`SOUL.md:2: "## Safety" is the heading of a section of the prompt; call it something else (heading)`:                    {"SOUL.md": "x\n## Safety\n"},
		`USER.md:1: "# Project Context" is the heading of a section of the prompt; call it something else (heading)`:            {"USER.md": "# Project Context #\n"},
		`USER.md:1: "## Subagent Context" is the heading of a section of the prompt; call it something else (heading)`:          {"USER.md": "## Subagent Context\n"},
		"IDENTITY.md:1: invisible character U+202E (invisible)":                                                                 {"IDENTITY.md": "a\u202eb"},
		"IDENTITY.md:2: invisible character U+E0041 (invisible)":                                                                {"IDENTITY.md": "a\nb\U000e0041"},
		"memory/x.md:1: invisible character U+001B (invisible)":                                                                 {"memory/x.md": "\x1b[31m"},
		"AGENTS.md:1: a conflict of a merge was left here (conflict)":                                                           {"AGENTS.md": "<<<<<<< HEAD\n"},
		"BOOTSTRAP.md: it is still there, but IDENTITY.md is filled in (bootstrap)":                                             {"BOOTSTRAP.md": "x", "USER.md": "", "MEMORY.md": ""},
	} {
		assert.Contains(t, lintWorkspace(changes), want)
	}
	assert.Contains(
		t, strings.Join(lintWorkspace(map[string]string{"BOOTSTRAP.md": "x"}), "\n"),
		"memories in MEMORY.md",
	)
}

func TestLintOfExtraFiles(t *testing.T) {
	fsys := contexttest.Workspace(
		map[string]string{"BOOTSTRAP.md": "", "packages/api/AGENTS.md": "## Runtime\n"},
	)
	assert.Empty(t, contexttest.Lint(fsys, agentctx.Limits{}))
	found := contexttest.Lint(fsys, agentctx.Limits{}, "packages/*/AGENTS.md", "../outside.md")
	assert.Len(t, found, 2)
	assert.Equal(t, contexttest.RuleUnread, found[0].Rule, "a wrong name is told")
	assert.Equal(t, contexttest.RuleHeading, found[1].Rule)
}

func TestLintNeverShowsASecret(t *testing.T) {
	for _, secret := range []string{
		"sk-abcdefghijklmnopqrstuvwxyz", "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
		"AKIAIOSFODNN7EXAMPLE",
		"xoxb-1234567890-abcdef", "-----BEGIN RSA PRIVATE KEY-----", "password: hunter2hunter2",
		"API_KEY=\"abcd1234efgh\"",
		"postgres://ada:s3cret99@db/x", "123456789:AAabcdefghijklmnopqrstuvwxyz01234567",
		"secret = abcdefgh12345",
		"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
		"AIzaSyA1234567890abcdefghijklmnopqrstuv", "glpat-abcdefghijklmnop1234",
	} {
		found := lintWorkspace(map[string]string{"TOOLS.md": "first line\n" + secret + "\n"})
		assert.Equal(
			t,
			[]string{
				"TOOLS.md:2: this looks like a password or key; name the place where it is kept instead (secret)",
			},
			found,
			secret,
		)
	}
}

func TestClean(t *testing.T) {
	assert.Empty(t, failuresOf(t, func(tb testing.TB) {
		contexttest.Clean(
			tb, contexttest.Workspace(map[string]string{"BOOTSTRAP.md": ""}), agentctx.Limits{},
		)
	}))
	assert.Len(t, failuresOf(t, func(tb testing.TB) {
		contexttest.Clean(
			tb,
			contexttest.Workspace(
				map[string]string{"BOOTSTRAP.md": "", "SOUL.md": "", "TOOLS.md": "## Runtime"},
			),
			agentctx.Limits{},
		)
	}), 2)
}
