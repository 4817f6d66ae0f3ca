package agent_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// photo is a PNG, as far as one can see.
var photo = append([]byte(pngBytes), bytes.Repeat([]byte{7}, 100)...)

var groupKey = session.Must(session.GroupKey("main", "telegram", "family"))

// turnsOf runs f beside a bot that answers "ok", and returns what the turns began with.
func turnsOf(t *testing.T, cfg agent.Config, f func(h *harness)) (turns [][]agent.Message) {
	t.Helper()
	cfg.Runner = agent.RunnerFunc(func(_ context.Context, tn *agent.Turn) (agent.Result, error) {
		turns = append(turns, tn.Messages[len(tn.Messages)-tn.New:])
		return textResult("ok")
	})
	agenttest.Run(t, cfg, nil, func(h *harness) {
		f(h)
		synctest.Wait()
	})
	return turns
}

// A6: what a person sends reaches the Runner and the transcript: nothing of it is dropped.
func TestPostTakesWhatPeopleSend(t *testing.T) {
	store, at := session.NewMemory(), time.Date(2020, 2, 3, 4, 5, 6, 7, time.FixedZone("x", 3600))
	m := agent.Incoming{
		ID: "1", Text: "look", At: at, From: session.Sender{ID: "u1", Name: " An\u200bn\n "},
		Parts: []session.Part{
			{Kind: session.PartImage, MediaType: "image/png", Name: "cat.png", Data: photo},
			{Kind: session.PartAudio, URL: "https://example.org/a.ogg"},
		},
		Meta: map[string]string{"update": "17"},
	}
	var ref session.Ref
	var reply agent.Reply
	turns := turnsOf(t, agent.Config{Store: store}, func(h *harness) {
		key := session.Must(session.DirectKey("main", "telegram", "u1"))
		require.NoError(t, errorOf(h.Session(key).Post(h.Context(), m)))
		reply = *h.Replies()[0].Reply
		ref = session.Ref{Key: key, SessionID: sessionIDOf(t, store, key)}
	})
	require.Equal(t, []string{"1"}, reply.InReplyTo)
	require.Equal(t, m.Meta, reply.Meta)
	require.Equal(t, session.Route{Channel: "telegram", To: "u1"}, reply.Route)

	got := turns[0][0]
	file := got.Parts[0].File
	require.Equal(t, agent.Message{
		ID: "1", Role: session.MessageUser, Text: "look", Time: at.UTC(),
		From: session.Sender{ID: "u1", Name: "Ann"}, Ord: 1,
		Parts: []session.Part{
			{Kind: session.PartImage, MediaType: "image/png", Name: "cat.png", File: file},
			m.Parts[1],
		},
	}, got)
	data, err := session.ReadFile(t.Context(), store.Files, ref, file)
	require.NoError(t, err)
	require.Equal(t, photo, data)
	require.NotEmpty(t, m.Parts[0].Data, "the caller's own is not changed")
	for line, err := range store.Transcripts.Read(t.Context(), ref, session.LineQuery{}) {
		require.NoError(t, err)
		require.Equal(t, got, line.Message)
		break
	}
}

// sessionIDOf returns the id of a top-level session.
func sessionIDOf(t *testing.T, store *session.Store, key session.Key) string {
	t.Helper()
	view, err := spawn.View(key, store.Journal.Read(t.Context(), key, 0))
	require.NoError(t, err)
	return view.SessionID
}

// A message that cannot be kept as it is is refused by its field, and nothing of it is recorded.
func TestPostRefusesWhatCannotBeKept(t *testing.T) {
	ok := session.Part{Kind: session.PartImage, Data: photo}
	gone := session.File{Hash: strings.Repeat("0", 64), Size: 3}
	many := make([]session.Part, 10_000)
	for i := range many {
		many[i] = ok
	}
	with := func(change func(p *session.Part)) agent.Incoming {
		p := ok
		change(&p)
		return agent.Incoming{ID: "1", Text: "x", Parts: []session.Part{ok, p}}
	}
	for name, c := range map[string]struct {
		m    agent.Incoming
		want string
	}{
		"no text and no part":  {agent.Incoming{ID: "1"}, "spawn: text: it is empty"},
		"a text of nothing":    {agent.Incoming{Text: "\u200b"}, "spawn: text: "},
		"too many parts":       {agent.Incoming{Text: "x", Parts: many}, "(Limits.Parts)"},
		"a part that is large": {with(func(p *session.Part) { p.Data = make([]byte, 2_000) }), "(Limits.Part)"},
		"a large file": {with(func(p *session.Part) {
			p.Data, p.File = nil, session.File{Hash: gone.Hash, Size: math.MaxInt64}
		}), "(Limits.Part)"},
		"no bytes and no URL": {with(func(p *session.Part) { p.Data = nil }), "Parts[1].File: "},
		"bytes and a URL":     {with(func(p *session.Part) { p.URL = "https://x.org" }), "Parts[1].URL: "},
		"bytes and a file":    {with(func(p *session.Part) { p.File = gone }), "Parts[1].Data: "},
		"a file that is gone": {with(func(p *session.Part) { p.Data, p.File = nil, gone }), "Parts[1].File: "},
		"a name with a path":  {with(func(p *session.Part) { p.Name = "../x" }), "Parts[1].Name: "},
		"no kind":             {with(func(p *session.Part) { p.Kind = "" }), "Parts[1].Kind: "},
		"a meta too long": {
			agent.Incoming{Text: "x", Meta: map[string]string{"k": strings.Repeat("v", 16<<10)}},
			"(Limits.Meta)",
		},
		"a meta not UTF-8": {agent.Incoming{Text: "x", Meta: map[string]string{"\xff": ""}}, "spawn: meta: "},
		"a sender not UTF-8": {
			agent.Incoming{Text: "x", From: session.Sender{ID: "\xff"}}, "spawn: from.id: ",
		},
		"a sender too long": {
			agent.Incoming{Text: "x", From: session.Sender{ID: strings.Repeat("x", 5_000)}}, "(Limits.ID)",
		},
		"before all years": {agent.Incoming{Text: "x", At: time.Date(1600, 1, 1, 0, 0, 0, 0, time.UTC)}, "spawn: at: "},
		"after all years":  {agent.Incoming{Text: "x", At: time.Unix(math.MaxInt64, 0)}, "spawn: at: "},
		"a route too long": {
			agent.Incoming{Text: "x", Route: session.Route{Channel: strings.Repeat("x", 5_000)}},
			"route.channel: ",
		},
		"a route not UTF-8": {agent.Incoming{Text: "x", Route: session.Route{To: "\xff"}}, "route.to: "},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := agent.Config{Limits: agent.Limits{Part: 1_000}}
			turns := turnsOf(t, cfg, func(h *harness) {
				for _, post := range []func(agent.Incoming) error{
					func(m agent.Incoming) error { return errorOf(h.Main().Post(h.Context(), m)) },
					func(m agent.Incoming) error {
						_, err := h.Main().PostAndWait(h.Context(), m)
						return err
					},
				} {
					err := post(c.m)
					require.ErrorContains(t, err, c.want)
					require.NotErrorIs(t, err, agent.ErrUnconfirmed)
					_, input := errors.AsType[*agent.InputError](err)
					_, part := errors.AsType[*session.PartError](err)
					require.True(t, input || part, "%T", err)
				}
				require.NoError(
					t, errorOf(h.Main().Post(h.Context(), agent.Incoming{ID: "1", Text: "good"})),
				)
			})
			require.Len(t, turns, 1)
			require.Equal(t, "good", turns[0][0].Text)
		})
	}
}

// A Store without Files takes messages, and refuses what needs a file. One whose Files fail records
// nothing.
func TestPostNeedsFilesForBytesAlone(t *testing.T) {
	full := errors.New("the disk is full")
	for name, c := range map[string]struct {
		files session.Files
		want  error
	}{
		"none": {nil, session.ErrNoFiles},
		"full": {fullFiles{session.NewMemory().Files, full}, full},
	} {
		t.Run(name, func(t *testing.T) {
			memory := session.NewMemory()
			cfg := agent.Config{Store: &session.Store{
				Journal: memory.Journal, Transcripts: memory.Transcripts, Files: c.files,
			}}
			turns := turnsOf(t, cfg, func(h *harness) {
				p := session.Part{Kind: session.PartImage, Data: photo}
				m := agent.Incoming{ID: "1", Text: "look", Parts: []session.Part{p}}
				require.ErrorIs(t, errorOf(h.Main().Post(h.Context(), m)), c.want)
				_, err := h.Main().PostAndWait(h.Context(), m)
				require.ErrorIs(t, err, c.want)
				m.Parts[0] = session.Part{Kind: session.PartImage, URL: "https://example.org/a.png"}
				require.NoError(t, errorOf(h.Main().Post(h.Context(), m)))
			})
			require.Len(t, turns, 1)
		})
	}
}

type fullFiles struct {
	session.Files
	err error
}

func (f fullFiles) Put(
	context.Context, session.Ref, io.Reader, session.File,
) (session.File, error) {
	return session.File{}, f.err
}

// What a part says of its bytes is not trusted: the transcript says what they are.
func TestPartsThatLie(t *testing.T) {
	html := []byte("<!DOCTYPE html><script>alert(1)</script>")
	turns := turnsOf(t, agent.Config{}, func(h *harness) {
		m := agent.Incoming{Parts: []session.Part{
			{Kind: session.PartImage, MediaType: "image/png", Data: html},
			{Kind: session.PartImage, MediaType: "image/png", Data: photo},
			{Kind: session.PartAudio, MediaType: "audio/ogg", Data: photo},
		}}
		require.NoError(t, errorOf(h.Main().Post(h.Context(), m)))
	})
	var got []string
	for _, p := range turns[0][0].Parts {
		got = append(got, string(p.Kind)+" "+p.MediaType)
	}
	require.Equal(t, []string{"file text/html; charset=utf-8", "image image/png", "image image/png"}, got)
}

// A reply says which messages it answers, in order, and has what the program kept with the last of
// them. Both survive a restart.
func TestRepliesSayWhatTheyAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		cfg := configWith(func(context.Context, *agent.Turn) (agent.Result, error) {
			return textResult("Hello")
		})
		online := false
		var got []agent.Reply
		cfg.Reply = func(_ context.Context, d agent.Delivery) error {
			if !online {
				return errors.New("offline")
			}
			got = append(got, *d.Reply)
			return nil
		}
		inDir := func(f func(rt *agent.Runtime)) {
			store, err := dirstore.Open(dir)
			require.NoError(t, err)
			cfg.Store = store
			f(mustOpen(t, cfg))
			require.NoError(t, store.Close())
		}
		inDir(func(rt *agent.Runtime) { // it does not run yet: one turn reads them all
			for _, id := range []string{"1", "2", "", "3", ""} {
				m := agent.Incoming{ID: id, Text: "hi", Meta: map[string]string{"of": "#" + id}}
				require.NoError(t, errorOf(rt.Session(topKey).Post(t.Context(), m)))
			}
			require.NoError(t, rt.Shutdown(t.Context()))
		})
		for _, online = range []bool{false, true} {
			inDir(func(rt *agent.Runtime) {
				done := make(chan error, 1)
				go func() { done <- rt.Run(t.Context()) }()
				time.Sleep(time.Hour / 4)
				require.NoError(t, rt.Shutdown(t.Context()))
				require.NoError(t, <-done)
			})
		}
		require.Equal(t, []agent.Reply{{
			From: topKey, Text: "Hello", Turn: 1, InReplyTo: []string{"1", "2", "3"},
			Meta: map[string]string{"of": "#"}, Senders: unknownPerson,
		}}, got)
	})
}

func mustOpen(t *testing.T, cfg agent.Config) *agent.Runtime {
	t.Helper()
	rt, err := agent.Open(t.Context(), cfg)
	require.NoError(t, err)
	return rt
}

// What a sub-agent is told before its first turn comes after its task, as its prompt says.
func TestTaskIsTheFirstMessage(t *testing.T) {
	var first []string
	cfg := configWith(func(_ context.Context, tn *agent.Turn) (agent.Result, error) {
		if tn.Run == "" {
			return agent.Result{Text: "ok"}, nil
		}
		for _, m := range tn.Messages {
			first = append(first, m.Text[max(0, len(m.Text)-6):])
		}
		return agent.Result{Text: "done"}, nil
	})
	cfg.Store = session.NewMemory()
	synctest.Test(t, func(t *testing.T) {
		rt, err := agent.Open(t.Context(), cfg)
		require.NoError(t, err)
		child, err := agent.Spawn[string](t.Context(), rt.Session(topKey), agent.Task{Text: "a task"})
		require.NoError(t, err)
		require.NoError(t, child.Steer(t.Context(), "a steer!"))
		require.NoError(t, errorOf(child.Session().Post(t.Context(), agent.Incoming{Text: "a post"})))
		require.NoError(t, rt.Shutdown(t.Context()))
	})
	synctest.Test(t, func(t *testing.T) {
		runFor(t, cfg, func(rt *agent.Runtime) {
			require.NoError(t, rt.Session(topKey).Idle(t.Context()))
		})
	})
	require.Equal(t, []string{"a task", "a post", "steer!"}, first)
}

// exitingFiles are Files whose Put ends its goroutine.
type exitingFiles struct{ session.Files }

func (exitingFiles) Put(
	context.Context, session.Ref, io.Reader, session.File,
) (session.File, error) {
	runtime.Goexit()
	return session.File{}, nil
}

// Files that end their goroutine have failed, and do not take that of the caller with them.
func TestPostToFilesThatExit(t *testing.T) {
	memory := session.NewMemory()
	cfg := agent.Config{Store: &session.Store{
		Journal: memory.Journal, Transcripts: memory.Transcripts, Files: exitingFiles{memory.Files},
	}}
	turnsOf(t, cfg, func(h *harness) {
		m := agent.Incoming{Parts: []session.Part{{Kind: session.PartImage, Data: photo}}}
		require.ErrorContains(t, errorOf(h.Main().Post(h.Context(), m)), "ended its goroutine")
	})
}
