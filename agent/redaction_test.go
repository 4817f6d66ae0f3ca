package agent_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/announce"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/session"
)

// 3.7: what a program has masked of its own is masked in deltas, events, the safe view, errors and
// the log, and not in what a session replays.
func TestOwnSecretsAtEachBoundary(t *testing.T) {
	var log bytes.Buffer
	const value, ticket = "correct horse 17", "ticket-1234"
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		for _, piece := range []string{"It is correct ho", "rse 17, see tick", "et-1234.\n"} {
			tn.Delta(piece)
		}
		text := "It is " + value + ", see " + ticket + "."
		m := agent.Message{Role: session.MessageAssistant, Text: text}
		m.ToolCalls = []agent.ToolCall{{ID: "1", Name: "read", Args: []byte(`{"a":"` + value + `"}`)}}
		if err := tn.Record(ctx, m); err != nil {
			return agent.Result{}, err
		}
		return agent.Result{}, errors.New("refused " + value + " of " + ticket)
	})
	cfg.Logger = loggingTo(&log).Logger
	cfg.Redact = announce.Redaction{Patterns: []string{`ticket-\d+`}, Secrets: []string{value}}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		seen := watch(h, agent.EventQuery{Root: topKey, Kinds: []agent.EventKind{
			agent.EventDelta, agent.EventTurnEnded,
		}})
		synctest.Wait()
		h.Post("go")
		synctest.Wait()
		deltas := ""
		for _, e := range seen() {
			if e.Kind == agent.EventDelta {
				deltas += e.Text
			}
			require.NotContains(t, e.Text+e.Error, value)
			require.NotContains(t, e.Text+e.Error, ticket)
		}
		require.Equal(t, "It is ***, see ***.", deltas)
		page, err := h.Main().History(h.Context(), agent.HistoryQuery{})
		require.NoError(t, err)
		text := ""
		for _, l := range page.Lines {
			text += l.Message.Text
			for _, c := range l.Message.ToolCalls {
				text += string(c.Args)
			}
		}
		require.Contains(t, text, "It is ***, see ***.")
		require.Contains(t, text, `{"a":"***"}`)
		require.NotContains(t, text, value)
		raw, err := h.Main().History(h.Context(), agent.HistoryQuery{Raw: true})
		require.NoError(t, err)
		require.Contains(t, raw.Lines[1].Message.Text, value, "the session has it as it was")
		replies := h.Replies()
		require.Len(t, replies, 1)
		require.Equal(t, "refused *** of ***", replies[0].Reply.Err)
	})
	require.Contains(t, log.String(), "refused *** of ***")
	require.NotContains(t, log.String(), value)
}

// 3.7: what a sub-agent says of a registered secret, in whatever form, reaches neither the model of
// its requester nor people, in a reply or an update, unless the Config opens that. The session that
// said it has it as it was.
func TestSecretsOfAChildReachNoBoundary(t *testing.T) {
	const value = `p@ss "wörd"/9`
	forms := []string{
		value, url.QueryEscape(value), strconv.Quote(value),
		base64.StdEncoding.EncodeToString([]byte(value)),
	}
	leak := "I found " + strings.Join(forms, " and ") + "."
	for name, open := range map[string]announce.Boundary{
		"closed": 0, "replies are open": announce.BoundaryReplies,
		"models are open": announce.BoundaryModels,
		"both are open":   announce.BoundaryModels | announce.BoundaryReplies,
	} {
		t.Run(name, func(t *testing.T) {
			told := ""
			cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
				last := tn.Messages[len(tn.Messages)-1].Text
				if tn.Session.Depth > 0 {
					return agent.Result{Text: leak}, nil
				}
				if strings.Contains(last, "I found") {
					told = last
					return agent.Result{Text: leak}, nil // a model that has it from elsewhere
				}
				_, err := tn.Spawn(ctx, agent.Task{Text: "look", Announce: true})
				return agent.Result{Text: "wait"}, err
			})
			cfg.Redact = announce.Redaction{Secrets: []string{value}, Open: open}
			agenttest.Run(t, cfg, nil, func(h *harness) {
				h.Post("go")
				synctest.Wait()
				child, err := h.Main().Spawn(h.Context(), agent.Task{Text: "look", Update: true})
				require.NoError(t, err)
				time.Sleep(time.Minute)
				replies := h.Replies()
				require.Len(t, replies, 3)
				for i, form := range forms {
					shown := open&announce.BoundaryModels != 0
					if i != 2 { // each line of an event is as it is, but a quote in it may not be
						require.Equal(t, shown, strings.Contains(told, form), form)
					}
					for _, d := range replies[1:] {
						require.Equal(t, open&announce.BoundaryReplies != 0,
							strings.Contains(d.Reply.Text, form), form)
					}
				}
				page, err := child.Session().History(h.Context(), agent.HistoryQuery{Raw: true})
				require.NoError(t, err)
				require.Contains(t, page.Lines[len(page.Lines)-1].Message.Text, value)
			})
		})
	}
}

// A pattern or a secret that is refused is a mistake of the Config, with its path.
func TestOpenRefusesARedaction(t *testing.T) {
	cfg := configWith(nil)
	cfg.Redact = announce.Redaction{Patterns: []string{`fine-\d+`, `.*`}, Secrets: []string{"abc"}}
	_, err := agent.Open(t.Context(), cfg)
	mistakes, ok := errors.AsType[agent.ConfigErrors](err)
	require.True(t, ok, "%v", err)
	var paths []string
	for _, m := range mistakes {
		paths = append(paths, m.Path)
	}
	require.Contains(t, paths, "Redact.Patterns[1]")
	require.Contains(t, paths, "Redact.Secrets[0]")
	require.ErrorContains(t, err, "it can match the empty text")
	require.NotContains(t, err.Error(), `"abc"`)
}

// hiders are what a reader does not see within a secret, and what makes a line of the rest of it.
var hiders = []string{
	"\u200b", "\u200c", "\u200d", "\u200e", "\u200f", "\u202e", "\u2060", "\u2066", "\u00ad", "\u034f",
	"\u061c", "\u17b4", "\u2800", "\u3164", "\ufe0f", "\ufeff", "\U0001d173", "\U000e0041", "\ue000",
	"\x00", "\x08", "\x7f", "\x1b[31m", "\x1b]0;t\a", "\u009b1m", "\r", "\n", "\u0085", "\u2028",
}

// controlTokens are what is cut from within a secret where a text is shown.
var controlTokens = []string{"<|assistant|>", "<|im_end|><|im_start|>", "<｜end▁of▁sentence｜>"}

// spell returns a text without what a reader does not see and what ends a line.
func spell(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\r' || r == '|' || r == ' ' || text.IsUndrawn(r) {
			return -1
		}
		return r
	}, text.WithoutControls(s))
}

// 3.7: what a reader does not see hides no secret on any way out of a session: in errors, the log,
// the safe view, events, milestones, results, replies, deltas, and what other models are told.
func TestNothingHidesASecretAtABoundary(t *testing.T) {
	const value, token = "Tr0ub4dor3zebra", "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
	for _, hider := range append(slices.Clip(hiders), controlTokens...) {
		t.Run(strconv.QuoteToASCII(hider), func(t *testing.T) {
			t.Parallel()
			within := hider
			if slices.Contains(controlTokens, hider) {
				within = "" // half a token of a known form is not known
			}
			leak := "It is " + value[:7] + hider + value[7:] + " and " + token[:12] + within + token[12:] + " so"
			var log bytes.Buffer
			told := ""
			cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
				for _, m := range tn.Messages {
					if tn.Session.Depth == 0 && m.Internal {
						told += m.Text
					}
				}
				if tn.Session.Depth == 0 {
					return agent.Result{Text: leak}, nil
				}
				tn.Delta(leak)
				m := agent.Message{Role: session.MessageAssistant, Text: leak}
				data, err := json.Marshal(map[string]string{"a": leak})
				m.ToolCalls = []agent.ToolCall{{ID: "1", Name: "read", Args: data}}
				err = errors.Join(err, tn.Record(ctx, m),
					tn.Report(ctx, agent.Progress{Text: leak, Milestone: true}))
				if err != nil || strings.Contains(tn.Input(), "fail") {
					return agent.Result{}, errors.Join(err, errors.New(leak))
				}
				return agent.Result{Text: leak}, nil
			})
			cfg.Logger = loggingTo(&log).Logger
			cfg.Redact = announce.Redaction{Secrets: []string{value}}
			agenttest.Run(t, cfg, nil, func(h *harness) {
				seen := watch(h, agent.EventQuery{Deltas: agent.DeltasShown})
				h.Post("go")
				var out []string
				for _, task := range []agent.Task{
					{Text: "do", Announce: true, Milestones: true},
					{Text: "do", Update: true},
					{Text: "fail", Announce: true},
					{Text: "fail", Update: true},
				} {
					child, err := h.Main().Spawn(h.Context(), task)
					require.NoError(t, err)
					time.Sleep(time.Minute)
					info, err := child.Info(h.Context())
					require.NoError(t, err)
					page, err := child.Session().History(h.Context(), agent.HistoryQuery{})
					require.NoError(t, err)
					out = append(out, "error "+info.Error)
					for _, l := range page.Lines {
						out = append(out, "history "+l.Message.Text)
						for _, c := range l.Message.ToolCalls {
							out = append(out, "arguments "+string(c.Args))
						}
					}
				}
				deltas := "deltas "
				for _, e := range seen() {
					if out = append(out, "event "+e.Text+e.Error); e.Kind == agent.EventDelta {
						deltas += e.Text
					}
				}
				for _, d := range h.Replies() {
					out = append(out, "reply "+d.Reply.Text, "failed reply "+d.Reply.Err)
				}
				for _, s := range append(out, deltas, "model "+told, "log "+log.String()) {
					require.NotContains(t, spell(s), value, s)
					require.NotContains(t, spell(s), token, s)
				}
				require.Contains(t, told, "status: success", "the model is told of it")
				require.Contains(t, told, "status: error, failed: It is ***", "the model is told of it")
			})
		})
	}
}
