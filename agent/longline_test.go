package agent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// maxLine is how long a line is at most where the store keeps files.
const maxLine = 256 << 10

// longRaw returns a JSON string of a size.
func longRaw(size int) json.RawMessage {
	return json.RawMessage(`"` + strings.Repeat("r", size-2) + `"`)
}

// recorder records messages in its first turn, and keeps what the second one was given.
type recorder struct {
	messages []agent.Message
	given    []agent.Message
}

func (r *recorder) Run(ctx context.Context, tn *agent.Turn) (res agent.Result, err error) {
	if tn.N > 1 {
		r.given = tn.Messages
		return res, nil
	}
	for _, m := range r.messages {
		err = errors.Join(err, tn.Record(ctx, m))
	}
	return res, err
}

// linesOf returns the lines of the main session.
func linesOf(t *testing.T, store *session.Store) (lines []session.Line) {
	t.Helper()
	view, err := spawn.View(topKey, store.Journal.Read(t.Context(), topKey, 0))
	require.NoError(t, err)
	ref := session.Ref{Key: topKey, SessionID: view.SessionID}
	for line, err := range store.Transcripts.Read(t.Context(), ref, session.LineQuery{}) {
		require.NoError(t, err)
		lines = append(lines, line)
	}
	return lines
}

// longMessages are messages that are too long for a line, each in another way, and a call whose
// result one of them is.
func longMessages() []agent.Message {
	long := strings.Repeat("é\x01", maxLine/6)
	return []agent.Message{
		{
			ID: "m1", Role: session.MessageUser, Text: long, From: session.Sender{ID: "7", Name: "Ann"},
			Parts: []agent.Part{{Kind: agent.PartFile, URL: "https://example.com"}},
		},
		{
			Role: session.MessageAssistant, Model: "p/x", Usage: agent.Usage{Input: 3}, Text: "short",
			ToolCalls: []agent.ToolCall{
				{ID: "a", Name: "look", Args: longRaw(2 * maxLine)}, {ID: "b", Name: "ls"},
			},
		},
		{Role: session.MessageTool, ToolCallID: "a", Text: long, Failed: true},
		{Role: session.MessageTool, ToolCallID: "b", Text: "b", Raw: longRaw(maxLine)},
		{Role: session.MessageAssistant, Text: "end", Raw: longRaw(maxLine)},
	}
}

// Decision 1.1: a message that is too long for a line is a file, and the line has what a reader
// needs. The next turn is given the message as it was, also after a restart.
func TestLongMessagesAreFiles(t *testing.T) {
	inStores(t, func(t *testing.T, open func() *session.Store) {
		run := &recorder{messages: longMessages()}
		store := open()
		runTurns(t, agent.Config{Store: store, Runner: run}, "record")
		lines := linesOf(t, store)
		require.Len(t, lines, 6)
		for i, line := range lines[1:] {
			m, whole := line.Message, run.messages[i]
			data, err := m.AppendJSON(nil)
			require.NoError(t, err)
			require.Less(t, len(data), 20_000, "%d", i)
			require.NotZero(t, m.Whole, "%d", i)
			require.Empty(t, m.Raw)
			require.True(t, strings.HasPrefix(whole.Text, m.Text) && len(m.Text) <= 4<<10)
			told := func(m agent.Message) []any {
				return []any{
					m.ID, m.Role, m.ToolCallID, m.Failed, m.Model, m.Usage, m.From, m.Parts,
				}
			}
			require.Equal(t, told(whole), told(m))
			require.Len(t, m.ToolCalls, len(whole.ToolCalls))
			for j, c := range m.ToolCalls {
				require.Equal(t, whole.ToolCalls[j].ID, c.ID)
				require.Equal(t, whole.ToolCalls[j].Name, c.Name)
			}
		}
		runTurns(t, agent.Config{Store: open(), Runner: run}, "and?")
		requireRecorded(t, run)
	})
}

// requireRecorded fails unless the second turn was given what the first one recorded.
func requireRecorded(t *testing.T, run *recorder) {
	t.Helper()
	require.Len(t, run.given, len(run.messages)+2)
	for i, m := range run.given[1 : len(run.given)-1] {
		require.False(t, m.Time.IsZero())
		m.Time = run.messages[i].Time
		require.Equal(t, run.messages[i], m, "%d", i)
	}
}

// Decision 1.1: a line of 262,144 bytes is a line, and one more byte makes it a file. Without files
// every message stays in its line.
func TestWhereALineEnds(t *testing.T) {
	for over, isFile := range map[int]bool{0: false, 1: true} {
		store := session.NewMemory()
		m := agent.Message{Role: session.MessageUser, Text: "x", Time: someTime}
		data, err := m.AppendJSON(nil)
		require.NoError(t, err)
		m.Text = strings.Repeat("x", maxLine-len(data)+1+over)
		run := &recorder{messages: []agent.Message{m}}
		cfg := agent.Config{Store: store, Runner: run}
		agenttest.Run(t, cfg, nil, func(h *harness) { postEach(h, "record", "and?") })
		require.Equal(t, isFile, !linesOf(t, store)[1].Message.Whole.IsZero())
		require.Equal(t, m.Text, run.given[1].Text)
	}
	store, run := withoutFiles(), &recorder{messages: longMessages()}
	cfg := agent.Config{Store: store, Runner: run}
	agenttest.Run(t, cfg, nil, func(h *harness) { postEach(h, "record", "and?") })
	requireRecorded(t, run)
	require.Zero(t, linesOf(t, store)[1].Message.Whole)
}

// Decision 1.1: a file that is gone or damaged takes what was in it, and no more: the conversation
// goes on with the beginning of the message, a provider accepts it, and the log says so.
func TestLongMessageWhoseFileIsLost(t *testing.T) {
	for name, lose := range map[string]func(t *testing.T, dir string, store *session.Store){
		"gone": func(t *testing.T, dir string, _ *session.Store) {
			require.NotZero(t, eachFile(t, dir, os.Remove))
		},
		"changed": func(t *testing.T, dir string, _ *session.Store) {
			require.NotZero(t, eachFile(t, dir, func(path string) error {
				data, err := os.ReadFile(path)
				data[len(data)/2] ^= 1
				return errors.Join(err, os.WriteFile(path, data, 0o600))
			}))
		},
		"cut": func(t *testing.T, dir string, _ *session.Store) {
			require.NotZero(t, eachFile(t, dir, func(path string) error {
				return os.Truncate(path, 100)
			}))
		},
		"not a message": func(_ *testing.T, _ string, store *session.Store) {
			store.Files = otherBytes{store.Files, "[]"}
		},
		"another message": func(_ *testing.T, _ string, store *session.Store) {
			store.Files = otherBytes{store.Files, `{"role":"note"}`}
		},
		"without files": func(_ *testing.T, _ string, store *session.Store) { store.Files = nil },
	} {
		t.Run(name, func(t *testing.T) {
			inDirectory(t, func(t *testing.T, dir string, open func() *session.Store) {
				run := &recorder{messages: longMessages()}
				runTurns(t, agent.Config{Store: open(), Runner: run}, "record")
				store := open()
				lose(t, dir, store)
				var log bytes.Buffer
				runTurns(t, agent.Config{
					Store: store, Runner: run, Logger: slog.New(slog.NewTextHandler(&log, nil)),
				}, "and?")
				require.Equal(t, 5, strings.Count(log.String(), "the file of a long message is lost"))
				require.Contains(t, log.String(), "level=ERROR")
				require.NoError(t, agenttest.CheckConversation(run.given))
				require.Len(t, run.given, 7)
				for i, m := range run.given[1:6] {
					require.Contains(t, m.Text, "[Offshoot] The rest of this message is lost.")
					require.Zero(t, m.Whole)
					for j, c := range m.ToolCalls {
						require.Equal(t, run.messages[i].ToolCalls[j].ID, c.ID)
						require.JSONEq(t, `{}`, string(c.Args))
					}
				}
			})
		})
	}
}

// eachFile calls f for every file that a directory keeps for transcripts.
func eachFile(t *testing.T, dir string, f func(path string) error) (n int) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(filepath.Dir(path), ".files") {
			return err
		}
		n++
		return f(path)
	}))
	return n
}

// otherBytes are files that have other bytes than they should.
type otherBytes struct {
	session.Files
	data string
}

func (f otherBytes) Open(context.Context, session.Ref, string) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(f.data)), nil
}

// refusing are files that take nothing.
type refusing struct{ session.Files }

func (refusing) Put(
	context.Context, session.Ref, io.Reader, session.File,
) (session.File, error) {
	return session.File{}, session.ErrUnsafe
}

// A store whose files are refused for good keeps long messages in their lines.
func TestLongMessageThatCannotBeAFile(t *testing.T) {
	store, run := session.NewMemory(), &recorder{messages: longMessages()}
	store.Files = refusing{store.Files}
	agenttest.Run(t, agent.Config{Store: store, Runner: run}, nil, func(h *harness) {
		postEach(h, "record", "and?")
	})
	requireRecorded(t, run)
}
