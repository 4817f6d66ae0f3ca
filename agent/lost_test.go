package agent_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

// A lossyBot is a bot whose transcript is cut while it is down.
type lossyBot struct {
	t   *testing.T
	dir string
	log bytes.Buffer
	saw [][]string // the messages of each turn
}

// live opens the bot, has it told something, and closes it when it is idle, or in the middle of a
// turn.
func (b *lossyBot) live(text string, interrupt bool, steps ...agent.Message) {
	b.t.Helper()
	store, err := dirstore.Open(b.dir)
	require.NoError(b.t, err)
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		var saw []string
		for _, m := range tn.Messages {
			saw = append(saw, fmt.Sprintf("%s:%s%d", m.Role, m.Text, len(m.ToolCalls)))
		}
		b.saw = append(b.saw, saw)
		for _, m := range steps {
			if err := tn.Record(ctx, m); err != nil {
				return agent.Result{}, err
			}
		}
		if interrupt {
			<-ctx.Done()
			return agent.Result{}, ctx.Err()
		}
		return agent.Result{Text: "answer to " + tn.Messages[len(tn.Messages)-1].Text}, nil
	})
	cfg.Store, cfg.Logger, cfg.Reply = store, slog.New(slog.NewTextHandler(&b.log, nil)),
		func(context.Context, agent.Delivery) error { return nil }
	rt, err := agent.Open(b.t.Context(), cfg)
	require.NoError(b.t, err)
	done := make(chan error, 1)
	go func() { done <- rt.Run(context.WithoutCancel(b.t.Context())) }()
	s := rt.Session(session.Must(session.MainKey("main")))
	if text != "" {
		require.NoError(b.t, errorOf(s.Post(b.t.Context(), agent.Incoming{Text: text})))
	}
	ctx, cancel := context.WithCancel(b.t.Context())
	defer cancel()
	if interrupt {
		synctest.Wait()
		cancel()
	} else {
		require.NoError(b.t, s.Idle(b.t.Context()))
	}
	_ = rt.Shutdown(ctx)
	require.NoError(b.t, <-done)
	require.NoError(b.t, store.Close())
}

// A session whose transcript has lost lines goes on from what there is. Nothing of an interrupted
// turn counts because of that, and the loss is told.
func TestTranscriptLostLines(t *testing.T) {
	calls := []agent.Message{
		{
			Role:      session.MessageAssistant,
			ToolCalls: []agent.ToolCall{{ID: "c1", Name: "ls"}, {ID: "c2", Name: "ls"}},
		},
		{Role: session.MessageTool, ToolCallID: "c1", Text: "files"},
		{Role: session.MessageTool, ToolCallID: "c2", Text: "more"},
	}
	said := []string{
		"user:one0", "assistant:answer to one0", "user:two0", "assistant:2",
		"tool:files0", "tool:more0", "assistant:answer to two0",
	}
	kept := []int{0, 1, 2, 3, 3, 3, 6, 7} // of said, by how many lines there are
	for left := -1; left < len(said); left++ {
		for _, rest := range []int{0, 10} {
			t.Run(fmt.Sprint(left, " lines and ", rest, " bytes"), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := &lossyBot{t: t, dir: t.TempDir()}
					b.live("one", false)
					b.live("two", false, calls...)
					files, err := filepath.Glob(filepath.Join(b.dir, "sessions", "main", "*.jsonl"))
					require.NoError(t, err)
					require.Len(t, files, 1)
					whole, err := os.ReadFile(files[0])
					require.NoError(t, err)
					if left < 0 {
						require.NoError(t, os.Remove(files[0]))
					} else {
						lines := bytes.SplitAfter(whole, []byte("\n"))
						text := append(bytes.Join(lines[:1+left], nil), lines[1+left][:rest]...)
						require.NoError(t, os.WriteFile(files[0], text, 0o600))
					}
					assert.Empty(t, b.log.String())
					b.live("three", true, calls[0])
					assert.Contains(t, b.log.String(), "lost lines")
					assert.Contains(t, b.log.String(), files[0])
					b.live("", true, calls[0])
					b.live("", false)
					b.live("four", false)
					before := said[:kept[max(left, 0)]]
					three := append(slices.Clip(before), "user:three0")
					four := append(slices.Clip(three), "assistant:answer to three0", "user:four0")
					assert.Equal(t, [][]string{said[:1], said[:3], three, three, three, four},
						b.saw)
				})
			})
		}
	}
}

// A transcript that is cut while its session lives costs no turn: the next one goes on from what
// there is. A line that has rotted is noticed when the transcript is read: by the next turn if
// nothing of the session is kept in memory, and else when the tree has rested.
func TestTranscriptChangedInUse(t *testing.T) {
	t.Run("nothing is kept", func(t *testing.T) {
		testTranscriptChanged(t, agent.Limits{Hot: 1}, []int{1, 2, 3, 5, 7})
	})
	t.Run("the conversation is kept", func(t *testing.T) {
		testTranscriptChanged(t, agent.Limits{}, []int{1, 2, 4, 6, 7})
	})
}

// testTranscriptChanged has a session with five turns, which are given so many messages. Its
// transcript is cut before the second one, and a line of it is spoiled before the third one.
func testTranscriptChanged(t *testing.T, limits agent.Limits, want []int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		store, err := dirstore.Open(dir)
		require.NoError(t, err)
		var log bytes.Buffer
		var saw []int
		replies := make(chan string, 1)
		cfg := configWith(func(_ context.Context, tn *agent.Turn) (agent.Result, error) {
			saw = append(saw, len(tn.Messages))
			return agent.Result{Text: "answer to " + tn.Messages[len(tn.Messages)-1].Text}, nil
		})
		cfg.Store, cfg.Logger = store, slog.New(slog.NewTextHandler(&log, nil))
		cfg.Limits = limits
		cfg.Reply = func(_ context.Context, d agent.Delivery) error {
			replies <- d.Reply.Text
			return nil
		}
		s := runUntilEnd(t, cfg).Session(session.Must(session.MainKey("main")))
		ask := func(text string) string {
			require.NoError(t, errorOf(s.Post(t.Context(), agent.Incoming{Text: text})))
			synctest.Wait()
			require.Len(t, replies, 1, "without waiting")
			time.Sleep(2 * time.Second) // until the lines are in their file
			return <-replies
		}
		assert.Equal(t, "answer to one", ask("one"))
		files, err := filepath.Glob(filepath.Join(dir, "sessions", "main", "*.jsonl"))
		require.NoError(t, err)
		require.Len(t, files, 1)
		path := files[0]
		whole, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, whole[:len(whole)-5], 0o600))
		assert.Equal(t, "answer to two", ask("two"))
		assert.Contains(t, log.String(), "lost lines")
		whole, err = os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path,
			bytes.Replace(whole, []byte("one"), []byte("o\x00e"), 1), 0o600))
		assert.Equal(t, "answer to three", ask("three"))
		assert.Equal(t, limits.Hot == 1, strings.Contains(log.String(), "put aside"))
		assert.Equal(t, "answer to four", ask("four"))
		time.Sleep(20 * time.Minute)
		assert.Equal(t, "answer to five", ask("five"))
		assert.Contains(t, log.String(), "put aside")
		assert.Equal(t, want, saw)
	})
}

// Whatever of a transcript is damaged, the log names its file and where the damaged part is now.
func TestLogNamesDamagedTranscript(t *testing.T) {
	for name, test := range map[string]struct {
		damage func([]byte) []byte
		whole  bool
	}{
		"empty":        {func([]byte) []byte { return nil }, true},
		"half a head":  {func(b []byte) []byte { return b[:40] }, true},
		"damaged head": {func(b []byte) []byte { b[5] = 0; return b }, false},
		"damaged line": {func(b []byte) []byte {
			return bytes.Replace(b, []byte("one"), []byte("o\x00e"), 1)
		}, false},
		"no line at all": {func(b []byte) []byte { return bytes.Repeat([]byte{'\n'}, len(b)) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &lossyBot{t: t, dir: t.TempDir()}
				b.live("one", false)
				files, err := filepath.Glob(filepath.Join(b.dir, "sessions", "main", "*.jsonl"))
				require.NoError(t, err)
				require.Len(t, files, 1)
				text, err := os.ReadFile(files[0])
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(files[0], test.damage(text), 0o600))
				b.live("two", false)
				lines := strings.Split(b.log.String(), "\n")
				at := slices.IndexFunc(lines, func(line string) bool {
					return strings.Contains(line, "put aside")
				})
				require.GreaterOrEqual(t, at, 0, b.log.String())
				assert.Contains(t, lines[at], "transcript="+files[0]+" ")
				assert.Contains(t, lines[at], "aside=["+files[0]+".torn.")
				assert.Equal(t, test.whole, strings.Contains(lines[at], "as a whole"), lines[at])
			})
		})
	}
}

// A line that no transcript can ever take is refused at once, in memory as on a disk. The turn goes
// on without it, and so does the session.
func TestInvalidLineIsRefusedAtOnce(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) *session.Store{
		"memory": func(*testing.T) *session.Store { return session.NewMemory() },
		"disk": func(t *testing.T) *session.Store {
			store, err := dirstore.Open(t.TempDir())
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, store.Close()) })
			return store
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := open(t)
				cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
					began := time.Now()
					for _, m := range []agent.Message{
						{Usage: agent.Usage{Cost: math.NaN()}},
						{Usage: agent.Usage{Cost: math.Inf(1)}},
						{
							Time: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC),
						},
					} {
						m.Role, m.Text = session.MessageAssistant, "hello"
						assert.ErrorIs(t, tn.Record(ctx, m), session.ErrInvalidLine)
					}
					assert.Equal(t, began, time.Now(), "nothing is tried again")
					return agent.Result{Text: fmt.Sprint(len(tn.Messages))}, nil
				})
				replies := make(chan string, 2)
				cfg.Store = store
				cfg.Reply = func(_ context.Context, d agent.Delivery) error {
					replies <- d.Reply.Text
					return nil
				}
				s := runUntilEnd(t, cfg).Session(session.Must(session.MainKey("main")))
				for i, want := range []string{"1", "3"} {
					require.NoError(
						t, errorOf(s.Post(t.Context(), agent.Incoming{Text: fmt.Sprint(i)})),
					)
					require.NoError(t, s.Idle(t.Context()))
					require.Equal(t, want, <-replies)
				}
			})
		})
	}
}

// R10: any byte of a transcript is broken. The next turn goes on from the lines that are intact, at
// their positions, and what is broken is kept beside the transcript and logged.
func TestBrokenByteOfTranscript(t *testing.T) {
	skipUnderRace(t)
	calls := []agent.Message{
		{Role: session.MessageAssistant, ToolCalls: []agent.ToolCall{{ID: "c1", Name: "ls"}}},
		{Role: session.MessageTool, ToolCallID: "c1", Text: "files"},
	}
	synctest.Test(t, func(t *testing.T) {
		first := &lossyBot{t: t, dir: t.TempDir()}
		first.live("one", false)
		first.live("two", false, calls...)
		files, err := filepath.Glob(filepath.Join(first.dir, "sessions", "main", "*.jsonl"))
		require.NoError(t, err)
		require.Len(t, files, 1)
		whole, err := os.ReadFile(files[0])
		require.NoError(t, err)
		rel, err := filepath.Rel(first.dir, files[0])
		require.NoError(t, err)
		places := []int{0, len(whole) - 2}
		for at := range whole {
			if at%23 == 0 || whole[at] == '\n' {
				places = append(places, at)
			}
		}
		for n, at := range places {
			b := &lossyBot{t: t, dir: filepath.Join(t.TempDir(), "copy")}
			require.NoError(t, os.CopyFS(b.dir, os.DirFS(first.dir)))
			text := bytes.Clone(whole)
			text[at] = []byte{0, '\n', whole[at] ^ 0x80}[n%3]
			if whole[at] == '\n' {
				text[at] = 'x'
			}
			path := filepath.Join(b.dir, rel)
			require.NoError(t, os.WriteFile(path, text, 0o600))
			b.live("three", false)
			b.live("four", false)
			brokenByteSeen(t, b, path, text, whole, at)
		}
	})
}

// brokenByteSeen fails unless a bot has gone on after a byte of its transcript was broken.
func brokenByteSeen(t *testing.T, b *lossyBot, path string, text, whole []byte, at int) {
	t.Helper()
	require.Len(t, b.saw, 2, "at %d: two turns: %s", at, b.log.String())
	var lost int
	for _, said := range []string{
		"user:one0", "assistant:answer to one0", "user:two0", "assistant:1", "tool:files0",
		"assistant:answer to two0",
	} {
		if !slices.Contains(b.saw[0], said) {
			lost++
		}
	}
	if at > bytes.IndexByte(whole, '\n') { // a name in the first line may have become another
		require.LessOrEqual(t, lost, 3, "at %d: two lines, and the result of a call in one", at)
	}
	require.Equal(t, "user:three0", b.saw[0][len(b.saw[0])-1])
	require.Equal(t, append(slices.Clone(b.saw[0]), "assistant:answer to three0", "user:four0"),
		b.saw[1], "at %d", at)
	for _, err := range dirstore.Verify(t.Context(), b.dir) {
		require.NoError(t, err, at)
	}
	if lost == 0 {
		return // the byte was in a text, where another letter is as good, or in the first line
	}
	require.NotEmpty(t, b.log.String(), at)
	kept, err := filepath.Glob(path + ".torn.*")
	require.NoError(t, err)
	last := bytes.LastIndexByte(whole[:len(whole)-1], '\n')
	require.True(t, len(kept) > 0 || at > last, "at %d: nothing was kept", at)
	for _, name := range kept {
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		require.True(t, bytes.Contains(text, b), "at %d", at)
	}
}

// tallyTranscripts notes how much is written, and may report a position far ahead.
type tallyTranscripts struct {
	session.Transcripts
	lines, bytes int
	ahead        session.Pos // added to the position of the next answer
}

func (c *tallyTranscripts) Append(
	ctx context.Context, ref session.Ref, after session.Pos, messages ...session.Message,
) (session.Pos, error) {
	for _, m := range messages {
		c.lines++
		c.bytes += len(m.Text)
	}
	end, err := c.Transcripts.Append(ctx, ref, after, messages...)
	if messages[len(messages)-1].Text == "an answer" {
		end, c.ahead = end+c.ahead, 0
	}
	return end, err
}

// A position says nothing beyond its order: what stands for lost lines is linear in what was lost
// where positions count lines, as in memory, and an end that no transcript can have is corrupt.
func TestLostLinesOfAStoreThatCountsLines(t *testing.T) {
	for name, c := range map[string]struct {
		lines int
		ahead session.Pos
	}{
		"none": {}, "one": {lines: 1}, "many": {lines: 5000}, "more than there can be": {ahead: 1 << 62},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				memory := session.NewMemory()
				written := &tallyTranscripts{Transcripts: session.NewMemory().Transcripts}
				reply := func(transcripts session.Transcripts, text string) string {
					cfg := configWith(func(
						ctx context.Context, tn *agent.Turn,
					) (agent.Result, error) {
						for i := 0; i < c.lines && transcripts == memory.Transcripts; i++ {
							line := agent.Message{Role: session.MessageAssistant, Text: "x"}
							if err := tn.Record(ctx, line); err != nil {
								return agent.Result{}, err
							}
						}
						return agent.Result{Text: "an answer"}, nil
					})
					cfg.Store = &session.Store{
						Journal: memory.Journal, Transcripts: transcripts, Files: memory.Files,
					}
					cfg.Logger = slog.New(slog.DiscardHandler)
					rt := runUntilEnd(t, cfg)
					s := rt.Session(session.Must(session.MainKey("main")))
					r, err := s.PostAndWait(t.Context(), agent.Incoming{Text: text})
					require.NoError(t, err)
					require.NoError(t, rt.Shutdown(t.Context()))
					return r.Text
				}
				require.Equal(t, "an answer", reply(memory.Transcripts, "one"))
				written.ahead = c.ahead
				require.Equal(t, "an answer", reply(written, "two"))
				require.LessOrEqual(t, written.lines, c.lines+20)
				require.LessOrEqual(t, written.bytes, 100*(c.lines+20))
				if c.ahead > 0 { // nothing can stand for so much
					lines := written.lines
					require.NotEqual(t, "an answer", reply(written, "three"))
					require.LessOrEqual(t, written.lines, lines+4)
				}
			})
		})
	}
}
