package openclaw_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent/openclaw"
)

// keep writes the credentials of an agent below a state directory.
func keep(t *testing.T, state, id, text string) string {
	t.Helper()
	dir := filepath.Join(state, "agents", id, "agent")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	file := filepath.Join(dir, "auth-profiles.json")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

func TestProfiles(t *testing.T) {
	state := t.TempDir()
	keep(t, state, "main", `{
		"version": 1,
		"profiles": {
			"key": {"type": "api_key", "provider": "anthropic", "key": "k1", "metadata": {"region": "eu"}},
			"old": {"mode": "api_key", "provider": "anthropic", "apiKey": "k2"},
			"token": {"type": "token", "provider": "github", "token": " t1 ", "expires": 2000000000000},
			"gone": {"type": "token", "provider": "github", "token": "t2", "expires": 1000},
			"oauth": {"type": "oauth", "provider": "google", "access": "a", "refresh": "r", "expires": 1000,
				"email": "me@example.com", "accountId": "7"},
			"env": {"type": "api_key", "provider": "x", "keyRef": {"source": "env", "id": "X_KEY"}},
			"exec": {"type": "api_key", "provider": "x", "keyRef": {"source": "exec", "id": "X_KEY"}},
			"unset": {"type": "api_key", "provider": "x", "keyRef": {"source": "env", "id": "NONE"}},
			"list": [], "text": "sk", "kind": {"type": "magic", "provider": "x", "key": "k"},
			"nobody": {"type": "api_key", "key": "k"}, "wrong": {"type": "api_key", "provider": 5, "key": "k"}
		},
		"order": {"anthropic": ["old", "key"], "bad": 5},
		"lastGood": {"anthropic": "old"}, "usageStats": {}
	}`)
	s := &openclaw.Store{
		StateDir: state, Isolated: []string{"ops"},
		Order: map[string][]string{"Anthropic": {"key"}, "google": {"oauth"}},
		Env:   func(name string) (string, bool) { return "from env", name == "X_KEY" },
		Now:   func() time.Time { return time.UnixMilli(1_700_000_000_000) },
	}
	p, err := s.Profiles(t.Context(), "Main")
	require.NoError(t, err)
	got := make(map[string]string)
	for id, x := range p.ByID {
		got[id] = fmt.Sprint(x.Provider, " ", x.Kind, " ", x.Secret.Reveal(), " ", x.Refresh.Reveal(),
			" ", x.Expires.UnixMilli() > 0, " ", x.Extra)
	}
	require.Equal(t, map[string]string{
		"key":   "anthropic api_key k1  false map[region:eu]",
		"old":   "anthropic api_key k2  false map[]",
		"token": "github token t1  true map[]",
		"oauth": "google oauth a r true map[accountId:7 email:me@example.com]",
		"env":   "x api_key from env  false map[]",
	}, got)
	require.Equal(t, map[string][]string{"anthropic": {"old", "key"}, "google": {"oauth"}}, p.Order)
	require.False(t, p.Isolated)

	p, err = s.Profiles(t.Context(), "ops")
	require.NoError(t, err)
	require.Equal(t, agent.Profiles{Isolated: true, Order: s.Order}, p, "there is no file")

	const secret = "sk-planted-in-a-broken-file"
	for text, fault := range map[string]string{
		`{"profiles": "` + secret + `"}`: "profiles is a text",
		`{"profiles": []}`:               "profiles is a list",
		`{"profiles": {}, "order": 5}`:   "order is a number",
		`{"order": true}`:                "order is true or false",
		`{` + secret:                     "it is not JSON",
		`{"profiles": {}} {}`:            "it is not JSON",
		`["` + secret + `"]`:             "it is a list",
		`"` + secret + `"`:               "it is a text",
		`null`:                           "it is null",
		"\ufeffnull":                     "it is null",
		`5`:                              "it is a number",
		` false`:                         "it is true or false",
		``:                               "it is empty",
		" \n":                            "it is empty",
		"\ufeff":                         "it is empty",
		"\xff\xfe{\x00}\x00":             "it is not UTF-8",
	} {
		keep(t, state, "broken", text)
		_, err = s.Profiles(t.Context(), "broken")
		require.EqualError(t, err, `openclaw: credentials of agent "broken": auth-profiles.json is not `+
			`a JSON object with profiles: `+fault, "%q", text)
	}
	for text, n := range map[string]int{
		"\ufeff{\"profiles\": {\"a\": {\"type\": \"api_key\", \"provider\": \"p\", \"key\": \"k\"}}}": 1,
		`{}`: 0, `{"profiles": null, "order": null}`: 0, "\n {}\n": 0,
	} {
		keep(t, state, "odd", text)
		p, err = s.Profiles(t.Context(), "odd")
		require.NoError(t, err, text)
		require.Len(t, p.ByID, n, text)
	}
	keep(t, state, "broken", strings.Repeat(" ", 1<<20+1))
	_, err = s.Profiles(t.Context(), "broken")
	require.ErrorContains(t, err, "more than 1048576 bytes")
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	_, err = s.Profiles(ctx, "main")
	require.ErrorIs(t, err, enough)
}

// snapshot returns the files below a directory with what is in them.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	root := os.DirFS(dir)
	require.NoError(t, fs.WalkDir(root, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := fs.ReadFile(root, p)
		files[p] = string(data)
		return err
	}))
	return files
}

// The agents of a file log in with what is in their directories: their own over main's. Nothing is
// written there, and a planted secret is in no file of the store and in no line of the log.
func TestCredentialsOfAFile(t *testing.T) {
	const main, own = "planted/main+secret", "planted/coder+secret"
	state, dir := t.TempDir(), t.TempDir()
	keep(t, state, "main", `{"profiles": {"a": {"type": "api_key", "provider": "p", "key": "`+main+`"}}}`)
	keep(t, state, "coder", `{"profiles": {"b": {"type": "api_key", "provider": "p", "key": "`+own+`"}}}`)
	before := snapshot(t, state)
	o := nowhere()
	o.StateDir, o.Isolated = state, []string{"Ops"}
	r, err := openclaw.Parse([]byte(`{
		auth: {order: {p: ["b", "a"]}},
		agents: {list: [{id: "main", subagents: {allowAgents: ["*"]}}, {id: "coder"}, {id: "ops"}]},
	}`), o)
	require.NoError(t, err)
	store, err := dirstore.Open(dir)
	require.NoError(t, err)
	var log bytes.Buffer
	used := make(map[string]string)
	cfg := agent.Config{
		Store: store, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Runner: agent.RunnerFunc(func(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
			all, err := agent.CredentialsFor(ctx, "p")
			if err != nil {
				used[turn.Session.Key.Agent()] = err.Error()
				return agent.Result{}, err
			}
			var keys []string
			for _, x := range all {
				keys = append(keys, x.Secret.Reveal())
			}
			used[turn.Session.Key.Agent()] = strings.Join(keys, " ")
			return agent.Result{}, fmt.Errorf("the provider refuses %q", keys)
		}),
	}
	r.Apply(&cfg)
	require.Nil(t, cfg.WorkDir, "what OpenDir opens need not be on a disk")
	agenttest.Run(t, cfg, nil, func(h *agenttest.Harness) {
		h.Post("hello")
		h.Pass(time.Minute)
		for _, id := range []string{"coder", "ops"} {
			_, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{Text: "x", Agent: id})
			require.NoError(t, err)
			h.Pass(time.Minute)
		}
	})
	require.Equal(t, map[string]string{
		"main": main, "coder": own + " " + main,
		"ops": `agent: agent "ops" has no credential for provider "p" (it is isolated, so that those ` +
			`of agent main do not count)`,
	}, used)
	require.Equal(t, before, snapshot(t, state), "nothing is written, and nothing copied")
	files := snapshot(t, dir)
	files["the log"] = log.String()
	require.Contains(t, log.String(), "the provider refuses")
	for name, text := range files {
		for _, secret := range []string{main, own, "planted"} {
			require.NotContains(t, text, secret, name)
		}
	}
}
