package contexttest_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/context/contexttest"
)

// secrets are lines of a workspace, each with the part that no log may show.
var secrets = map[string]string{
	"sk-abcdefghijklmnopqrstuvwxyz":                                                "abcdefghij",
	"use ghp_abcdefghijklmnopqrstuvwxyz0123456789 for releases":                    "abcdefghij",
	"AKIAIOSFODNN7EXAMPLE":                                                         "IOSFODNN7",
	"xoxb-1234567890-abcdef":                                                       "1234567890",
	"password: hunter2hunter2":                                                     "hunter2",
	"- Password = \"correcthorse battery staple\"":                                 "battery",
	"API_KEY=\"abcd1234efgh\"":                                                     "abcd1234",
	"postgres://ada:s3cret99@db/x":                                                 "s3cret99",
	"123456789:AAabcdefghijklmnopqrstuvwxyz01234567":                               "abcdefghij",
	"glpat-abcdefghijklmnop1234":                                                   "abcdefghij",
	"AIzaSyA1234567890abcdefghijklmnopqrstuv":                                      "abcdefghij",
	"-----BEGIN RSA PRIVATE KEY-----\nMIIEvQIBADAN\n-----END RSA PRIVATE KEY-----": "MIIEvQIBADAN",
	"-----BEGIN OPENSSH PRIVATE KEY-----\n\nb3BlbnNzaC1r":                          "b3BlbnNzaC1r",
	strings.Repeat("b3BlbnNz", 8) + "\n-----END PRIVATE KEY-----":                  "b3BlbnNz",
}

// leaking returns the failures of every assertion over two prompts, of which one or both have what
// is secret. Golden compares them in both directions.
func leaking(t *testing.T, a, b map[string]string) []string {
	t.Helper()
	t.Chdir(t.TempDir())
	load := func(changes map[string]string) agentctx.Prompt {
		return assemblePrompt(mainKey, func(in *agentctx.Input) {
			in.Files = agentctx.LoadWorkspace(contexttest.Workspace(changes))
			in.Limits.Total = 3000
		})
	}
	p, q := load(a), load(b)
	return failuresOf(t, func(tb testing.TB) {
		for _, pair := range [][2]agentctx.Prompt{{p, q}, {q, p}} {
			t.Setenv("OFFSHOOT_UPDATE", "1")
			contexttest.Golden(tb, "top", pair[0])
			t.Setenv("OFFSHOOT_UPDATE", "")
			contexttest.Golden(tb, "top", pair[1])
		}
		contexttest.SamePrefix(tb, p, q)
		contexttest.Complete(tb, q)
		contexttest.SeesOnly(tb, q, "other.md")
		contexttest.Order(tb, q, "safety", "identity")
		contexttest.Has(tb, q, "no such text")
		contexttest.Lacks(tb, q, "## Safety")
		contexttest.Clean(tb, contexttest.Workspace(b), agentctx.Limits{})
	})
}

// A9: no assertion prints what looks like a secret: where it is new, gone, another one, or beside
// a line that has changed.
func TestFailuresNeverShowASecret(t *testing.T) {
	for secret, canary := range secrets {
		file := func(text string) map[string]string {
			return map[string]string{"AGENTS.md": "first line\n" + text + "\nlast line\n"}
		}
		other := []byte(canary)
		slices.Reverse(other)
		for name, pair := range map[string][2]map[string]string{
			"new":     {file("no secret"), file(secret)},
			"changed": {file(strings.ReplaceAll(secret, canary, string(other))), file(secret)},
			"beside":  {file("red\n" + secret), file("blue\n" + secret)},
		} {
			t.Run(name+" "+secret, func(t *testing.T) {
				failures := leaking(t, pair[0], pair[1])
				require.Greater(t, len(failures), 6)
				for _, f := range failures {
					assert.NotContains(t, f, canary)
					assert.NotContains(t, f, string(other))
				}
				golden := failures[0]
				switch name {
				case "new":
					assert.Contains(t, golden, "\n-no secret\n")
					assert.Contains(t, golden, "\n+[not shown: ")
				case "beside":
					assert.Contains(t, golden, "\n-red\n+blue\n [not shown: ")
				default:
					assert.Contains(t, golden, "they differ only in lines that look like a password")
				}
			})
		}
	}
}

// A9: the rest of a prompt is shown as before, also what stands behind a private key.
func TestFailuresShowTheRest(t *testing.T) {
	key := "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\n"
	failures := leaking(
		t, map[string]string{"AGENTS.md": key + "The token: see the vault.\r\nred\n"},
		map[string]string{"AGENTS.md": key + "The token: see the vault.\nblue"},
	)
	assert.Contains(t, failures[0], " The token: see the vault.\n-red\n+blue\n")
}

// A9: of a file that is missing every assertion says how to mend it, and both ways do.
func TestMissingFileSaysHowToMendIt(t *testing.T) {
	for _, name := range []string{"AGENTS.md", "SOUL.md", "TOOLS.md", "IDENTITY.md", "USER.md"} {
		dir := t.TempDir()
		require.NoError(t, os.CopyFS(dir, contexttest.Workspace(map[string]string{
			name: "", "BOOTSTRAP.md": "",
		})))
		failures := func() []string {
			p := assemblePrompt(mainKey, func(in *agentctx.Input) {
				in.Files = agentctx.LoadWorkspace(os.DirFS(dir))
			})
			return failuresOf(t, func(tb testing.TB) {
				contexttest.Complete(tb, p)
				contexttest.Clean(tb, os.DirFS(dir), agentctx.Limits{})
			})
		}
		found := failures()
		require.Len(t, found, 2)
		for _, f := range found {
			assert.Contains(t, f, name+": ")
			assert.Contains(t, f, "write it, if need be empty, or have agentctx.Seed make it")
		}
		empty := fstest.MapFS{name: {Mode: 0o600}}
		require.NoError(t, os.CopyFS(dir, empty))
		assert.Empty(t, failures(), "%s is empty", name)

		require.NoError(t, os.Remove(dir+"/"+name))
		root, err := os.OpenRoot(dir)
		require.NoError(t, err)
		_, err = agentctx.Seed(root, agentctx.SeedOptions{})
		require.NoError(t, err)
		require.NoError(t, root.Close())
		assert.Empty(t, failures(), "%s is a template", name)
	}
}
