package agent_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
)

// storePath is the path that the errors of a leakyStore name. It has the key of another tree.
const storePath = "/srv/tenants/planted-4711/agent:other:main.log"

// A leakyStore is a store in memory of which one method fails as a disk does, while it is armed.
type leakyStore struct {
	*session.Store

	method string // "all": each of them
	armed  atomic.Bool
	only   func(session.Key) bool // nil: for every session
	as     error                  // what the error is beside the path; nil: it passes
}

func newLeakyStore(method string) (*session.Store, *leakyStore) {
	l := &leakyStore{Store: session.NewMemory(), method: method}
	return &session.Store{
		Journal: leakyJournal{l.Journal, l}, Transcripts: leakyTranscripts{l.Transcripts, l},
		Files: leakyFiles{l.Files, l},
	}, l
}

func (l *leakyStore) fault(method string, key session.Key) error {
	if !l.armed.Load() || l.method != method && l.method != "all" ||
		l.only != nil && !l.only(key) {
		return nil
	}
	failed := &fs.PathError{Op: "open", Path: storePath, Err: syscall.EIO}
	if l.as == nil {
		return failed
	}
	return fmt.Errorf("%w: %w", l.as, failed)
}

// leakySeq yields an error in the place of a sequence.
func leakySeq[T any](err error, seq iter.Seq2[T, error]) iter.Seq2[T, error] {
	if err == nil {
		return seq
	}
	return func(yield func(T, error) bool) {
		var none T
		yield(none, err)
	}
}

type leakyJournal struct {
	session.Journal

	l *leakyStore
}

func (j leakyJournal) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (session.Seq, error) {
	if err := j.l.fault("Journal.Append", root); err != nil {
		return 0, err
	}
	return j.Journal.Append(ctx, root, after, b)
}

func (j leakyJournal) Read(
	ctx context.Context, root session.Key, after session.Seq,
) iter.Seq2[session.Entry, error] {
	return leakySeq(j.l.fault("Journal.Read", root), j.Journal.Read(ctx, root, after))
}

func (j leakyJournal) Roots(
	ctx context.Context, q session.RootQuery,
) iter.Seq2[session.Head, error] {
	return leakySeq(j.l.fault("Journal.Roots", session.Key{}), j.Journal.Roots(ctx, q))
}

type leakyTranscripts struct {
	session.Transcripts

	l *leakyStore
}

func (x leakyTranscripts) Append(
	ctx context.Context, ref session.Ref, after session.Pos, m ...session.Message,
) (session.Pos, error) {
	if err := x.l.fault("Transcripts.Append", ref.Key); err != nil {
		return 0, err
	}
	return x.Transcripts.Append(ctx, ref, after, m...)
}

func (x leakyTranscripts) Read(
	ctx context.Context, ref session.Ref, q session.LineQuery,
) iter.Seq2[session.Line, error] {
	return leakySeq(x.l.fault("Transcripts.Read", ref.Key), x.Transcripts.Read(ctx, ref, q))
}

type leakyFiles struct {
	session.Files

	l *leakyStore
}

func (f leakyFiles) Put(
	ctx context.Context, ref session.Ref, r io.Reader, want session.File,
) (session.File, error) {
	if err := f.l.fault("Files.Put", ref.Key); err != nil {
		return session.File{}, err
	}
	return f.Files.Put(ctx, ref, r, want)
}

func (f leakyFiles) Open(
	ctx context.Context, ref session.Ref, hash string,
) (io.ReadCloser, error) {
	if err := f.l.fault("Files.Open", ref.Key); err != nil {
		return nil, err
	}
	return f.Files.Open(ctx, ref, hash)
}

var leakyMethods = []string{
	"Journal.Append", "Journal.Read", "Journal.Roots", "Transcripts.Append", "Transcripts.Read",
	"Files.Put", "Files.Open", "all",
}

// elsewhere is a session of another tree, with a sub-agent that an earlier process has spawned.
var elsewhere = session.Must(session.GroupKey("main", "irc", "room"))

// storeCalls are calls of all session tools, with every action. BUSY and DONE are the keys of
// sub-agents, HASH is that of a file.
var storeCalls = map[string][]string{
	"sessions_spawn": {
		`{"task":"x"}`, `{"task":"x","taskName":"again","agentId":"main"}`,
		`{"task":"x","context":"fork"}`, `{"task":"x","cleanup":"delete","runTimeoutSeconds":5}`,
		`{"task":"x","attachments":[{"name":"a.txt","content":"abc"}]}`,
	},
	"subagents": {
		`{}`, `{"action":"list"}`, `{"action":"info","target":"busy"}`,
		`{"action":"info","target":"last"}`, `{"action":"log","target":"done"}`,
		`{"action":"log","target":"BUSY"}`, `{"action":"kill","target":"busy"}`,
		`{"action":"kill","target":"all"}`,
		`{"action":"steer","target":"busy","message":"x"}`,
		`{"action":"send","target":"busy","message":"x"}`,
		`{"action":"send","target":"done","message":"x","timeoutSeconds":5}`,
	},
	"sessions_yield": {`{}`, `{"withinSeconds":1,"atLeast":1}`},
	"sessions_send": {
		`{"sessionKey":"busy","message":"x"}`,
		`{"sessionKey":"DONE","message":"x","timeoutSeconds":5}`,
		`{"sessionKey":"agent:main:irc:group:room","message":"x"}`,
		`{"sessionKey":"agent:main:irc:group:room","message":"x","timeoutSeconds":5}`,
		`{"sessionKey":"ELSEWHERE","message":"x"}`,
		`{"sessionKey":"agent:main:irc:group:never","message":"x"}`,
	},
	"agents_list":   {`{}`},
	"sessions_list": {`{}`, `{"messageLimit":3}`},
	"sessions_history": {
		`{}`, `{"sessionKey":"busy"}`, `{"sessionKey":"DONE","includeTools":true}`,
		`{"sessionKey":"agent:main:irc:group:room"}`, `{"sessionKey":"ELSEWHERE"}`,
		`{"sessionKey":"DONE","file":"HASH"}`, `{"sessionKey":"1f2e3d4c-no-such-id"}`,
	},
	"session_status": {
		`{}`, `{"sessionKey":"busy"}`, `{"sessionKey":"agent:main:irc:group:room"}`,
		`{"sessionKey":"ELSEWHERE"}`, `{"sessionKey":"1f2e3d4c-no-such-id"}`,
	},
}

// A storeWorld is a tree with a sub-agent at work and one that has ended, beside another tree.
type storeWorld struct {
	*leakyStore

	call func(ctx context.Context, tn *agent.Turn) // in the turn over the message "now"

	mu   sync.Mutex
	told []string // what tools have answered, and models were told
}

func (w *storeWorld) hear(texts ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = append(w.told, texts...)
}

func (w *storeWorld) run(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
	w.hear(tn.Prompt.String())
	for _, m := range tn.Messages {
		w.hear(m.Text)
	}
	last := tn.Messages[len(tn.Messages)-1].Text
	switch {
	case strings.Contains(last, "busy"):
		<-ctx.Done()
		return agent.Result{}, context.Cause(ctx)
	case strings.Contains(last, "done"):
		err := tn.Record(ctx, agent.Message{
			Role: session.MessageAssistant, Text: "see there", Parts: []agent.Part{{
				Kind: agent.PartFile, MediaType: "text/plain", Name: "a.txt", Data: []byte("abc"),
			}},
		})
		return agent.Result{Text: "done"}, err
	case strings.Contains(last, "now") && w.call != nil && tn.Session.Depth == 0:
		w.call(ctx, tn)
	}
	return agent.Result{Text: "well"}, nil
}

// play calls a tool of one host while a method of the store fails.
func (w *storeWorld) play(
	t *testing.T, cfg agent.Config, inTurn bool, calling func(h *harness, tools []agent.Tool),
) {
	cfg.Runner = agent.RunnerFunc(w.run)
	agenttest.Run(t, cfg, nil, func(h *harness) {
		for _, of := range []*agent.Session{h.Main(), h.Session(elsewhere)} {
			for _, name := range []string{"busy", "done"} {
				_, err := of.Spawn(h.Context(), agent.Task{Text: name, Label: name, Name: name})
				require.NoError(t, err)
				h.Pass(time.Second)
			}
		}
		if !inTurn {
			h.Crash() // the other tree is not in memory
			calling(h, h.Main().Tools())
		} else {
			w.call = func(ctx context.Context, tn *agent.Turn) { calling(h, tn.Tools) }
			h.Post("now")
		}
		h.Pass(time.Hour)
		w.armed.Store(false)
		h.Pass(time.Hour)
		for _, of := range []*agent.Session{h.Session(topKey), h.Session(elsewhere)} {
			_ = of.Stop(h.Context())
		}
		h.Post("well?") // reads all that waits
		h.Pass(time.Hour)
	})
}

// A session tool never tells a model what a store has said: neither in its answer, nor in its
// error, nor later in a message, whichever method fails.
func TestNoToolTellsWhatTheStoreSaid(t *testing.T) {
	for _, tool := range agent.SessionToolNames {
		require.NotEmpty(t, storeCalls[tool], tool)
	}
	require.Len(t, storeCalls, len(agent.SessionToolNames))
	world := 0
	for _, method := range leakyMethods {
		for _, tool := range agent.SessionToolNames {
			calls := storeCalls[tool]
			for _, args := range calls {
				for _, inTurn := range []bool{false, true} {
					if !inTurn && tool == "sessions_yield" {
						continue // a session that the caller runs has no turn to end
					}
					if world++; !plays(world) {
						continue
					}
					t.Run(fmt.Sprint(method, " ", tool, args, " ", inTurn), func(t *testing.T) {
						t.Parallel()
						callLeaky(t, method, tool, args, inTurn)
					})
				}
			}
		}
	}
}

func callLeaky(t *testing.T, method, tool, args string, inTurn bool) {
	store, leaky := newLeakyStore(method)
	w := &storeWorld{leakyStore: leaky}
	cfg := agent.Config{Store: store, Rules: policy.Rules{
		Visibility: policy.VisibilityAll, Subagents: policy.Subagents{MaxSpawnDepth: 2},
	}}
	cfg.Rules.Attachments.Enabled = true
	called := false
	w.play(t, cfg, inTurn, func(h *harness, tools []agent.Tool) {
		replaced := map[string]string{}
		for name, of := range map[string]session.Key{
			"BUSY": topKey, "DONE": topKey, "ELSEWHERE": elsewhere,
		} {
			runs, err := h.Session(of).Runs(h.Context())
			require.NoError(t, err)
			for _, r := range runs {
				if strings.EqualFold(r.Label, name) || name == "ELSEWHERE" {
					replaced[name] = r.Key.String()
				}
			}
		}
		for name, key := range replaced {
			args = strings.ReplaceAll(args, name, key)
		}
		args = strings.ReplaceAll(args, "HASH", fmt.Sprintf("%x", sha256.Sum256([]byte("abc"))))
		if !called { // a turn that is repeated finds a store that works
			leaky.armed.Store(true)
		}
		called = true
		out, err := findTool(t, tools, tool).Call(h.Context(),
			agent.ToolCall{ID: "1", Name: tool, Args: json.RawMessage(args)})
		w.hear(out.Text)
		if err != nil {
			w.hear(err.Error())
		}
	})
	require.True(t, called)
	requireNothingOfTheStore(t, w)
}

func requireNothingOfTheStore(t *testing.T, w *storeWorld) {
	t.Helper()
	require.NotEmpty(t, w.told)
	for _, said := range w.told {
		require.NotContains(t, said, "planted-4711")
		require.NotContains(t, said, "agent:other:main")
		require.NotContains(t, said, syscall.EIO.Error())
	}
}

// What a sub-agent came to whose transcript or files fail is told to its requester without a word
// of the store. The log has the cause.
func TestNoRequesterIsToldWhatTheStoreSaid(t *testing.T) {
	for _, method := range []string{"Transcripts.Append", "Transcripts.Read", "Files.Put", "all"} {
		for _, when := range []string{"before", "amid"} {
			t.Run(method+" "+when, func(t *testing.T) {
				store, leaky := newLeakyStore(method)
				leaky.only, leaky.as = session.Key.IsSubagent, session.ErrUnsafe // for good
				w := &storeWorld{leakyStore: leaky}
				var log bytes.Buffer
				run := func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
					if tn.Session.Depth > 0 {
						leaky.armed.Store(true)
					}
					return w.run(ctx, tn)
				}
				agenttest.Run(t, agent.Config{
					Store: store, Runner: agent.RunnerFunc(run),
					Logger: slog.New(slog.NewTextHandler(&log, nil)),
				}, nil, func(h *harness) {
					leaky.armed.Store(when == "before")
					_, err := callTool(h, "sessions_spawn", "1", `{"task":"done","label":"done"}`)
					require.NoError(t, err)
					h.Pass(12 * time.Hour)
					args := `{"action":"info","target":"last"}`
					info, err := callTool(h, "subagents", "2", args)
					w.hear(fmt.Sprint(info, err))
					if method != "Transcripts.Read" { // a first turn reads nothing
						require.Equal(t, "failed", info["status"])
					}
					leaky.armed.Store(false)
					h.Post("well?")
					h.Pass(time.Hour)
				})
				requireNothingOfTheStore(t, w)
				if method != "Transcripts.Read" {
					require.Contains(t, log.String(), "planted-4711")
				}
			})
		}
	}
}

// What a tool returns beside its text and the store refuses is left out, and the model is told no
// more than that.
func TestPartsThatTheStoreRefuses(t *testing.T) {
	store, leaky := newLeakyStore("Files.Put")
	leaky.as = session.ErrUnsafe
	leaky.armed.Store(true)
	var log bytes.Buffer
	seen := &modelParts{}
	runTurns(t, agent.Config{
		Store: store, Tools: []agent.Tool{partsTool(picture("a.png", 9))},
		Runner: &agent.Loop{Model: seen}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	}, "look")
	require.Contains(t, seen.seen.Text, "1 was left out: 1 (it cannot be kept now).")
	require.Contains(t, log.String(), "planted-4711")
}

// recordingCalls are calls of session tools that record something.
var recordingCalls = map[string][2]string{
	"spawn": {"sessions_spawn", `{"task":"x"}`},
	"kill":  {"subagents", `{"action":"kill","target":"last"}`},
	"steer": {"subagents", `{"action":"steer","target":"last","message":"go"}`},
	"send":  {"subagents", `{"action":"send","target":"last","message":"go"}`},
	"post":  {"sessions_send", sendArgs(otherKey, "go", 0)},
	"wait":  {"sessions_send", sendArgs(otherKey, "go", 5)},
}

// While the journal of its own tree takes nothing, a session tool of a caller's is refused soon,
// and one of a turn waits with the turn, and is done once then.
func TestSessionToolsWhileTheJournalFails(t *testing.T) {
	const outage = time.Hour
	for name, c := range recordingCalls {
		t.Run(name+"/caller", func(t *testing.T) {
			store, l := newLeakyStore("Journal.Append")
			cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
				if tn.Label == "a" {
					return agent.Result{}, pause(ctx, 10*time.Hour)
				}
				return textResult("x")
			})
			cfg.Rules, cfg.Store = rulesToWriteToOther(), store
			agenttest.Run(t, cfg, nil, func(h *harness) {
				startAll(h, "a")
				l.armed.Store(true)
				begun := time.Now()
				out, err := callTool(h, c[0], "1", c[1])
				require.LessOrEqual(t, time.Since(begun), 2*time.Second)
				require.Contains(t, fmt.Sprint(out["error"], err), "it is not known whether this was")
				l.armed.Store(false)
				h.Pass(time.Minute)
			})
		})
		t.Run(name+"/turn", func(t *testing.T) {
			store, l := newLeakyStore("Journal.Append")
			var took time.Duration
			cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
				switch {
				case tn.Label == "a":
					return agent.Result{}, pause(ctx, 10*time.Hour)
				case tn.Session.Key != topKey || took > 0:
					return textResult("x")
				}
				_, err := agent.Spawn[string](ctx, tn, agent.Task{Text: "x", Label: "a"})
				if err = cmp.Or(err, pause(ctx, time.Second)); err != nil {
					return agent.Result{}, err
				}
				l.armed.Store(true)
				begun := time.Now()
				out, err := tn.Call(ctx, agent.ToolCall{ID: "1", Name: c[0], Args: []byte(c[1])})
				took = time.Since(begun)
				require.NoError(t, err)
				require.NotContains(t, out.Text, "error")
				return textResult("x")
			})
			cfg.Rules, cfg.Store = rulesToWriteToOther(), store
			agenttest.Run(t, cfg, nil, func(h *harness) {
				h.Post("hi")
				h.Pass(outage)
				require.Zero(t, took)
				l.armed.Store(false)
				h.Pass(time.Minute)
				require.Greater(t, took, outage-2*time.Second)
				runs, err := h.Main().Runs(h.Context())
				require.NoError(t, err)
				require.Len(t, runs, map[bool]int{true: 2, false: 1}[name == "spawn"])
			})
		})
	}
}
