package agent_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
)

// noteHolder is a store of transcripts that keeps the writer of the first compaction waiting once
// its note is in the transcript.
type noteHolder struct {
	session.Transcripts
	ref            session.Ref
	noted, release chan struct{}
}

func (s *noteHolder) Append(
	ctx context.Context, ref session.Ref, after session.Pos, m ...session.Message,
) (session.Pos, error) {
	end, err := s.Transcripts.Append(ctx, ref, after, m...)
	if err == nil && len(m) > 0 && m[0].IsCompaction() && s.ref.SessionID == "" {
		s.ref = ref
		close(s.noted)
		<-s.release
	}
	return end, err
}

// notes returns the notes of the transcript, each with its kind.
func (s *noteHolder) notes(t testing.TB) (kinds []string) {
	for line, err := range s.Read(t.Context(), s.ref, session.LineQuery{}) {
		require.NoError(t, err)
		switch {
		case line.Message.IsCompaction():
			kinds = append(kinds, "compaction")
		case line.Message.Role == session.MessageNote:
			kinds = append(kinds, "fence")
		}
	}
	return kinds
}

// fencedNoteCases are the ways to compact "one" to "three". The process dies between the note and
// the end of the turn.
var fencedNoteCases = map[string]struct {
	tokens int  // of the window, in which each message takes a thousand; 0: a person asks
	step   bool // the turn of "four" has written something when it compacts
	retry  bool // it is compacted again
	want   []string
	four   string // the summary that the turn of "four" sees at last
	five   string
}{
	"asked, and again": {
		retry: true, want: []string{"compaction", "fence", "compaction"},
		four: "summary 2", five: "summary 2",
	},
	"asked once": {want: []string{"compaction", "fence"}},
	"at the beginning of a turn": {
		tokens: 8500, retry: true, want: []string{"compaction", "fence", "compaction"},
		four: "summary 2", five: "summary 2",
	},
	"at the beginning of a turn, and then the summary fails": {
		tokens: 8500, want: []string{"compaction", "fence", "compaction"}, five: "summary 3",
	},
	"within a turn": {
		tokens: 9500, step: true, retry: true,
		want: []string{"compaction", "fence", "compaction"}, four: "summary 2", five: "summary 2",
	},
	"within a turn, and then the summary fails": {
		tokens: 9500, step: true, want: []string{"compaction", "fence", "compaction"},
		five: "summary 3",
	},
}

// The note of a compaction whose turn has not ended is not committed. A process that comes after
// it compacts again or not, and never believes it: what it stood for is in the conversation.
func TestFencedNoteIsNotBelieved(t *testing.T) {
	for name, c := range fencedNoteCases {
		t.Run(name, func(t *testing.T) {
			store := session.NewMemory()
			holder := &noteHolder{Transcripts: store.Transcripts}
			store.Transcripts = holder
			var mu sync.Mutex
			seen, newest := make(map[string][]agent.Message), make(map[string]int)
			cfg := saying(func(ctx context.Context, tn *agent.Turn) (string, error) {
				in := tn.Input()
				if c.step && in == "four" {
					err := tn.Record(ctx, agent.Message{
						Role: session.MessageAssistant, Text: "answer so far",
					})
					if err != nil {
						return "", err
					}
				}
				view, err := tn.View(ctx)
				mu.Lock()
				defer mu.Unlock()
				if tn.N >= newest[in] { // the turn of the process that died may return later
					seen[in], newest[in] = view, tn.N
				}
				return "answer to " + in, err
			})
			cfg.Store, cfg.Logger = store, slog.New(slog.DiscardHandler)
			var asked [][]string
			cfg.Models.Window = func(string) agent.Window {
				return agent.Window{
					Tokens: c.tokens, Keep: 3,
					Count: countLines,
					Compact: func(_ context.Context, req agent.CompactRequest) (string, error) {
						asked = append(asked, saidIn(req.Messages))
						if n := len(asked); n != 2 || c.retry {
							return fmt.Sprint("summary ", n), nil
						}
						return "", errTest
					},
				}
			}
			agenttest.Run(t, cfg, nil, func(h *harness) {
				holder.noted, holder.release = make(chan struct{}), make(chan struct{})
				compactAndDie(h, holder, c.tokens == 0, c.retry)
				for _, text := range []string{"four", "five"} {
					if text == "five" || c.tokens == 0 {
						h.Post(text)
					}
					h.Pass(time.Second)
				}
				require.Equal(h.T(), c.want, holder.notes(h.T()))
				for text, want := range map[string]string{"four": c.four, "five": c.five} {
					said := strings.Join(saidIn(seen[text]), "\n")
					require.NotContains(h.T(), said, "summary 1", text)
					require.Contains(h.T(), said, want, text)
					if want == "" {
						require.False(h.T(), seen[text][0].Internal, text)
					}
				}
				if len(asked) > 1 {
					require.Equal(h.T(), asked[0], asked[1], "all that the fenced note stood for")
				}
				page := historyOf(h, agent.HistoryQuery{Raw: true})
				want := []string{
					"user: one", "assistant: answer to one", "user: two",
					"assistant: answer to two", "user: three", "assistant: answer to three",
					"user: four", "assistant: answer to four", "user: five",
					"assistant: answer to five",
				}
				if c.step {
					want = append(want[:7:7], append([]string{"assistant: answer so far"},
						want[7:]...)...)
				}
				require.Equal(h.T(), want, textsOfPage(page))
			})
		})
	}
}

// countLines counts a thousand tokens for each message that the test posts or answers.
func countLines(text string) int {
	switch text {
	case "one", "two", "three", "four", "five":
		return 1000
	}
	if strings.HasPrefix(text, "answer") {
		return 1000
	}
	return 0
}

// compactAndDie has the conversation of "one" to "three" compacted, by a person or by the turn of
// "four", and kills the process once the note is in the transcript.
func compactAndDie(h *harness, holder *noteHolder, asked, again bool) {
	for _, text := range []string{"one", "two", "three"} {
		h.Post(text)
		h.Pass(time.Second)
	}
	over := make(chan error, 1)
	ctx, left := context.WithCancel(h.Context())
	defer left()
	switch {
	case asked && again:
		go func() {
			over <- h.Do(func(rt *agent.Runtime) error { return rt.Session(topKey).Compact(ctx) })
		}()
	case asked:
		s := h.Main()
		go func() { over <- s.Compact(ctx) }()
	default:
		h.Post("four")
		over <- nil
	}
	<-holder.noted
	h.Crash()
	close(holder.release)
	if asked && !again {
		left()
		require.Error(h.T(), <-over)
		return
	}
	require.NoError(h.T(), <-over)
}

// A turn that was cut off is repeated on the side of a compaction on which the wish finds it: it is
// not under way before it has begun again.
func TestCompactAroundARepeatedTurn(t *testing.T) {
	for name, c := range map[string]struct {
		first bool // the wish is there before the next process runs turns
		want  []string
	}{
		"the compaction comes first": {true, []string{"four after 3", "five after 5"}},
		"the turn is under way":      {false, []string{"four after 6", "five after 3"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told []string
				cfg := windowed(repeating(), func(agent.CompactRequest) (string, error) {
					return "they counted", nil
				})
				cfg.Reply = func(_ context.Context, d agent.Delivery) error {
					told = append(told, d.Reply.Text)
					return nil
				}
				cfg.Store = session.NewMemory()
				runTurns(t, cfg, "one", "two", "three")
				cutOff(t, cfg, "four")
				rt, err := agent.Open(t.Context(), cfg)
				require.NoError(t, err)
				s, done, over := rt.Session(topKey), make(chan error, 1), make(chan error, 1)
				run := func() { done <- rt.Run(t.Context()) }
				compact := func() { over <- s.Compact(t.Context()) }
				before, after := run, compact
				if c.first {
					before, after = compact, run
				}
				go before()
				synctest.Wait()
				go after()
				require.NoError(t, <-over)
				require.NoError(t, s.Idle(t.Context()))
				require.NoError(t, errorOf(s.Post(t.Context(), agent.Incoming{Text: "five"})))
				require.NoError(t, s.Idle(t.Context()))
				require.NoError(t, rt.Shutdown(t.Context()))
				require.NoError(t, <-done)
				require.Equal(t, c.want, told[3:])
			})
		})
	}
}

// cutOff posts a message to a Runtime whose Run is ended during the turn over it.
func cutOff(t *testing.T, cfg agent.Config, text string) {
	t.Helper()
	rt, err := agent.Open(t.Context(), cfg)
	require.NoError(t, err)
	ctx, die := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- rt.Run(ctx) }()
	require.NoError(t, errorOf(rt.Session(topKey).Post(ctx, agent.Incoming{Text: text})))
	time.Sleep(time.Second / 2)
	die()
	<-done //nolint:errcheck // its context has ended
}
