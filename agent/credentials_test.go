package agent_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

func profile(provider, secret string) agent.Profile {
	return agent.Profile{Provider: provider, Kind: "api_key", Secret: agent.NewSecret(secret)}
}

// wallets are the profiles of three agents: coder has its own beside those of main, and ops is
// isolated.
var wallets = map[string]agent.Profiles{
	"main": {
		ByID: map[string]agent.Profile{
			"a:one": profile("anthropic", "main-one"), "a:two": profile("Anthropic", "main-two"),
			"o:one": profile("openai", "main-open"),
		},
		Order: map[string][]string{"anthropic": {"a:two", "gone", "a:one"}},
	},
	"coder": {
		ByID:  map[string]agent.Profile{"a:one": profile("anthropic", "coder-one")},
		Order: map[string][]string{"ANTHROPIC": {"a:one", "a:two"}},
	},
	"ops": {
		ByID:     map[string]agent.Profile{"g": profile("google", "ops-google")},
		Isolated: true,
	},
}

func credentials(_ context.Context, id string) (agent.Profiles, error) { return wallets[id], nil }

// An agent has its own profiles over those of main, per id, and an isolated one has its own alone.
// A sub-agent has those of its agent, whichever session spawned it.
func TestCredentialsOfAnAgent(t *testing.T) {
	said := make(map[string]string)
	var mu sync.Mutex
	cfg := configWith(func(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		for _, provider := range []string{"anthropic", " OpenAI ", "google"} {
			all, err := agent.CredentialsFor(ctx, provider)
			for _, x := range all {
				said[turn.Session.Key.Agent()] += " " + x.ID + "=" + x.Secret.Reveal()
			}
			if err != nil {
				said[turn.Session.Key.Agent()] += " (" + err.Error() + ")"
			}
			first, err := agent.CredentialFor(ctx, provider)
			if err == nil {
				require.Equal(t, all[0], first)
			}
		}
		return textResult("ok")
	})
	cfg.Models.Credentials = credentials
	cfg.Rules.Agents = []policy.Agent{
		{ID: "main", Subagents: policy.Subagents{AllowAgents: []string{"*"}}},
		{ID: "coder"},
		{ID: "ops"},
		{ID: "plain"},
	}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.Post("hello")
		for _, id := range []string{"coder", "ops", "plain"} {
			_, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{Text: "x", Agent: id})
			require.NoError(t, err)
		}
		h.Pass(time.Minute)
	})
	missing := func(id, provider, isolated, known string) string {
		return fmt.Sprintf(" (agent: agent %q has no credential for provider %q%s; it has some for %s)",
			id, provider, isolated, known)
	}
	const alone = " (it is isolated, so that those of agent main do not count)"
	trim := func(s string, n int) string { // main has several turns
		require.Zero(t, len(s)%n)
		require.Equal(t, strings.Repeat(s[:len(s)/n], n), s)
		return s[:len(s)/n]
	}
	none := missing("main", "google", "", "anthropic, openai")
	require.Equal(t, " a:two=main-two a:one=main-one o:one=main-open"+none,
		trim(said["main"], strings.Count(said["main"], "openai)")))
	require.Equal(t, " a:one=coder-one a:two=main-two o:one=main-open"+
		missing("coder", "google", "", "anthropic, openai"), said["coder"])
	require.Equal(t, missing("ops", "anthropic", alone, "google")+
		missing("ops", " OpenAI ", alone, "google")+" g=ops-google", said["ops"])
	require.Equal(t, " a:two=main-two a:one=main-one o:one=main-open"+
		missing("plain", "google", "", "anthropic, openai"), said["plain"])
	require.Equal(t, "main-one", wallets["main"].ByID["a:one"].Secret.Reveal(), "not changed")
}

// A credential that is missing is an error of its type, with which people are told that the account
// is what is wrong.
func TestMissingCredential(t *testing.T) {
	var got error
	cfg := configWith(func(ctx context.Context, _ *agent.Turn) (agent.Result, error) {
		_, got = agent.CredentialFor(ctx, "mistral")
		return agent.Result{}, got
	})
	cfg.Models.Credentials = credentials
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.Post("hello")
		h.Pass(time.Minute)
		require.Len(t, h.Replies(), 1)
		require.Contains(t, h.Replies()[0].Reply.Text, "does not accept my account")
	})
	missing, ok := errors.AsType[*agent.MissingCredentialError](got)
	require.True(t, ok)
	require.Equal(t, &agent.MissingCredentialError{
		Agent: "main", Provider: "mistral", Known: []string{"anthropic", "openai"},
	}, missing)
	require.ErrorIs(t, got, agent.ErrAccount)
	require.False(t, agent.IsRetryable(got))

	_, err := agent.CredentialFor(t.Context(), "mistral")
	require.EqualError(t, err, `agent: there is no credential for provider "mistral", since the `+
		`ctx is not that of a turn with Models.Credentials`)
}

// A Secret shows its value in no form that a program prints by accident.
func TestSecretIsNotShown(t *testing.T) {
	const value = "sk-planted-1234567890"
	x := profile("p", value)
	outer := struct{ hidden agent.Profile }{x}
	data, err := json.Marshal(map[string]any{"profile": x})
	require.NoError(t, err)
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "secret", x.Secret, "profile", x)
	for _, shown := range []string{
		fmt.Sprint(x.Secret), fmt.Sprintf("%v %+v %#v %q", x, x, x, x), x.Secret.String(),
		fmt.Sprintf("%v %+v %#v", outer, outer, outer), fmt.Sprintf("%x", x.Secret), string(data),
		log.String(), fmt.Sprint(&x), fmt.Sprintf("%#v", wallets["main"]),
	} {
		require.NotContains(t, shown, value)
		require.NotContains(t, shown, "main-one")
	}
	bare := []string{hex.EncodeToString([]byte(value)), fmt.Sprint([]byte(value))[1:40], value}
	for _, verb := range []string{
		"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "% x", "%d", "%t", "%b", "%c", "%e", "%p", "%U", "%10.3v",
	} {
		hidden := struct {
			one  agent.Secret
			many []agent.Secret
			by   map[string]agent.Profiles
		}{
			x.Secret,
			[]agent.Secret{x.Secret},
			map[string]agent.Profiles{"a": {ByID: map[string]agent.Profile{"b": x}}},
		}
		for _, value := range []any{
			x.Secret, &x.Secret, x, &x,
			[]agent.Secret{x.Secret},
			map[string]agent.Profile{"a": x},
			agent.Profiles{ByID: map[string]agent.Profile{"a": x}},
			outer, hidden, &hidden,
		} {
			shown := strings.ToLower(fmt.Sprintf(verb, value))
			for _, part := range bare {
				require.NotContains(t, shown, part, "%s of a %T", verb, value)
			}
		}
		if verb != "%#v" && verb != "%q" && verb != "%p" { // fmt itself answers %p
			require.Equal(t, "***", fmt.Sprintf(verb, x.Secret), verb)
		}
	}
	require.Equal(t, value, x.Secret.Reveal())
	require.Equal(t, agent.Secret{}, agent.NewSecret(""))
	require.True(t, agent.Secret{}.IsZero())
	require.Empty(t, agent.Secret{}.String()+agent.Secret{}.Reveal())
}

// planted is a credential of no known form, which nothing but Models.Credentials makes known.
const planted = "correct horse/battery+staple"

// spillPlanted is a Runner that says its credential wherever a careless one does, except in what it
// records itself.
func spillPlanted(ctx context.Context, turn *agent.Turn) (agent.Result, error) {
	x, err := agent.CredentialFor(ctx, "anthropic")
	if err != nil {
		return agent.Result{}, err
	}
	key := x.Secret.Reveal()
	_ = turn.Report(ctx, agent.Progress{Text: "logging in with " + key})
	_ = turn.Report(ctx, agent.Progress{Text: "logged in with " + key, Milestone: true})
	switch turn.Input() {
	case "panic":
		panic("bad key " + key)
	case "url":
		return agent.Result{}, fmt.Errorf("get https://x.example/?k=%s", url.QueryEscape(key))
	case "basic":
		return agent.Result{}, errors.New("sent " + base64.StdEncoding.EncodeToString([]byte("me:"+key)))
	}
	return agent.Result{}, fmt.Errorf("refused: %q, %+v", key, x)
}

// plantedTool is a tool that fails with the credential of its caller in its error, or panics.
func plantedTool(ctx context.Context, c agent.ToolCall) (agent.ToolResult, error) {
	x, err := agent.CredentialFor(ctx, "anthropic")
	if err != nil {
		return agent.ToolResult{}, err
	}
	if strings.Contains(string(c.Args), "panic") {
		panic("bad key " + x.Secret.Reveal())
	}
	return agent.ToolResult{}, errors.New("bad key " + x.Secret.Reveal())
}

// A planted credential with which a tool fails stands in no file, and the model reads a mask.
func TestPlantedCredentialOfAToolIsNowhere(t *testing.T) {
	dir := t.TempDir()
	store, err := dirstore.Open(dir)
	require.NoError(t, err)
	var log bytes.Buffer
	var shown strings.Builder
	cfg := agent.Config{Store: store, Tools: []agent.Tool{{Name: "login", Call: plantedTool}}}
	cfg.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	cfg.Models.Credentials = func(context.Context, string) (agent.Profiles, error) {
		return agent.Profiles{ByID: map[string]agent.Profile{"a": profile("anthropic", planted)}}, nil
	}
	login := []agenttest.Step{call("login", `{}`), call("login", `{"do":"panic"}`), echo()}
	agenttest.Run(t, cfg, script{
		agenttest.Main: append([]agenttest.Step{startStep("sub")}, login...), "sub": login,
	}, func(h *harness) {
		h.Post("log in")
		h.Pass(time.Hour)
		require.True(t, wasTold(h, "sub", "bad key ***"))
		require.True(t, wasTold(h, agenttest.Main, "bad key ***"))
		fmt.Fprintf(&shown, "%+v %+v %+v", h.Requests(agenttest.Main), h.Requests("sub"), h.Replies())
	})
	requireNoPlanted(t, dir, map[string]string{"log": log.String(), "shown": shown.String()})
}

// requireNoPlanted requires that the planted credential is in none of the texts and files.
func requireNoPlanted(t *testing.T, dir string, texts map[string]string) {
	t.Helper()
	files := os.DirFS(dir)
	err := fs.WalkDir(files, ".", func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var data []byte
			data, err = fs.ReadFile(files, p)
			texts[p] = string(data)
		}
		return err
	})
	require.NoError(t, err)
	require.Greater(t, len(texts), 4)
	for name, s := range texts {
		for _, form := range forms(planted) {
			require.NotContains(t, s, form, name)
		}
	}
}

// forms are how a secret can stand in a file.
func forms(secret string) []string {
	quoted, _ := json.Marshal(secret) //nolint:errchkjson // a string
	return []string{
		secret, url.QueryEscape(secret), url.PathEscape(secret), string(quoted[1 : len(quoted)-1]),
		base64.StdEncoding.EncodeToString([]byte("me:" + secret))[4:30],
	}
}

// A planted credential is in no file, log, event, journal, transcript or reply.
func TestPlantedCredentialIsNowhere(t *testing.T) {
	dir := t.TempDir()
	store, err := dirstore.Open(dir)
	require.NoError(t, err)
	var log bytes.Buffer
	var events []agent.TreeEvent
	var mu sync.Mutex
	cfg := configWith(spillPlanted)
	cfg.Store = store
	cfg.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	cfg.Models.Credentials = func(context.Context, string) (agent.Profiles, error) {
		return agent.Profiles{ByID: map[string]agent.Profile{
			"a": profile("anthropic", planted), "b": profile("openai", "x"), // too short to mask
		}}, nil
	}
	var shown strings.Builder
	agenttest.Run(t, cfg, nil, func(h *harness) {
		ctx, cancel := context.WithCancel(h.Context())
		defer cancel()
		for _, deltas := range []agent.DeltaForm{agent.DeltasNone, agent.DeltasShown} {
			go func() {
				q := agent.EventQuery{Deltas: deltas}
				for e, err := range h.Runtime().Events(ctx, q) {
					if err != nil {
						return // the end of ctx
					}
					mu.Lock()
					events = append(events, e)
					mu.Unlock()
				}
			}()
		}
		for _, how := range []string{"error", "panic", "url", "basic"} {
			h.Post(how)
			h.Pass(time.Minute)
			_, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{Text: how})
			require.NoError(t, err)
			h.Pass(time.Minute)
		}
		page, err := h.Main().History(h.Context(), agent.HistoryQuery{Raw: true})
		require.NoError(t, err)
		runs, err := h.Main().Runs(h.Context())
		require.NoError(t, err)
		mu.Lock()
		defer mu.Unlock()
		require.NotEmpty(t, events)
		require.NotEmpty(t, h.Replies())
		fmt.Fprintf(&shown, "%+v %+v %+v %+v", page, runs, events, h.Replies())
	})
	require.Contains(t, log.String(), "bad key ***")
	requireNoPlanted(t, dir, map[string]string{"log": log.String(), "shown": shown.String()})
}

// Compact calls the model with the credentials, too.
func TestCompactHasCredentials(t *testing.T) {
	var got []string
	cfg := configAnswering(asText)
	cfg.Models.Credentials = credentials
	cfg.Models.Window = func(string) agent.Window {
		return agent.Window{Tokens: 10_000, Keep: 1, Compact: func(
			ctx context.Context, _ agent.CompactRequest,
		) (string, error) {
			x, err := agent.CredentialFor(ctx, "openai")
			got = append(got, x.Secret.Reveal())
			return "so far", err
		}}
	}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		for range 3 {
			h.Post("hello " + strings.Repeat("x", 1000))
			h.Pass(time.Minute)
		}
		require.NoError(t, h.Main().Compact(h.Context()))
		h.Pass(time.Minute)
	})
	require.Equal(t, []string{"main-open"}, got)
}
