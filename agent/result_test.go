package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

type finding struct {
	Claim      string  `json:"claim" doc:"one sentence"`
	Confidence float64 `json:"confidence"`
}

// configAnswering is a Config whose sub-agents answer with their task.
func configAnswering(result func(task string) agent.Result) agent.Config {
	return configWith(func(_ context.Context, tn *agent.Turn) (agent.Result, error) {
		_, task, _ := strings.Cut(tn.Messages[0].Text, "[Subagent Task]: ")
		return result(task), nil
	})
}

func asText(task string) agent.Result { return agent.Result{Text: task} }

func TestTypedResults(t *testing.T) {
	want := finding{"it works", 0.9}
	good := `{"claim":"it works","confidence":0.9}`
	for name, c := range map[string]struct {
		result agent.Result
		ok     bool
	}{
		"JSON in the text":    {agent.Result{Text: good}, true},
		"JSON with space":     {agent.Result{Text: "\n  " + good + "\n"}, true},
		"in a fence":          {agent.Result{Text: "```json\n" + good + "\n```"}, true},
		"in a nameless fence": {agent.Result{Text: "```\n" + good + "\n```\n"}, true},
		"from the engine": {
			agent.Result{Text: "here you are", JSON: json.RawMessage(good)},
			true,
		},
		"prose":           {agent.Result{Text: "it works, I think"}, false},
		"cut off":         {agent.Result{Text: good[:20]}, false},
		"of another type": {agent.Result{Text: `{"claim":7}`}, false},
		"nothing":         {agent.Result{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			agenttest.Run(t, configAnswering(func(string) agent.Result { return c.result }), nil,
				func(h *harness) {
					child, err := agent.Spawn[finding](h.Context(), h.Main(), agent.Task{Text: "find"})
					require.NoError(t, err)
					got, err := child.Wait(h.Context())
					if c.ok {
						require.NoError(t, err)
						require.Equal(t, want, got)
						return
					}
					bad, ok := errors.AsType[*agent.ResultError](err)
					require.True(t, ok, "%v", err)
					require.Equal(t, spawn.StatusFailed, bad.Run.Status)
					require.Equal(t, 3, bad.Run.Turns, "it was told twice to answer again")
					require.Equal(t, c.result.Text, bad.Run.Result.Text)
					require.Error(t, bad.Unwrap())
				})
		})
	}
}

// An answer with two different values that fit is refused, however much stands between them, and
// one that says the same value twice is taken.
func TestEveryValueOfAnAnswerCounts(t *testing.T) {
	const good, other = `{"claim":"it works","confidence":0.9}`, `{"claim":"it fails","confidence":0.9}`
	want := make(map[string]bool)
	for _, junk := range []string{" { ", " [ ", " {} ", ` {"claim":1} `, ` {"a": `, ` "{ `, "and", `{"q":"{`} {
		for _, n := range []int{0, 1, 31, 32, 40, 5_000} {
			between := strings.Repeat(junk, n)
			want[good+between+"\n"+other] = false
			want["I say "+good+between+"\nso "+good] = true
		}
	}
	for _, same := range []string{
		`{"confidence":0.9,"claim":"it works"}`, "{ \"confidence\" : 0.9 ,\n\"claim\":\"it works\" }",
		`{"claim":"it w\u006frks","confidence":0.9}`,
	} {
		want[good+" or "+same] = true
		want[same+" or "+good+" or "+same] = true
		want[same+" or "+good+" or "+other] = false
	}
	agenttest.Run(t, configAnswering(asText), nil, func(h *harness) {
		for said, ok := range want {
			child, err := agent.Spawn[finding](h.Context(), h.Main(), agent.Task{Text: said})
			require.NoError(t, err)
			got, err := child.Wait(h.Context())
			if ok {
				require.NoError(t, err)
				require.Equal(t, finding{"it works", 0.9}, got)
				continue
			}
			bad, isBad := errors.AsType[*agent.ResultError](err)
			require.True(t, isBad, "%v", err)
			require.ErrorContains(t, bad, "it holds several JSON values that fit")
		}
	})
}

func TestRunnerIsGivenTheSchema(t *testing.T) {
	var schema string
	cfg := configWith(func(_ context.Context, tn *agent.Turn) (agent.Result, error) {
		schema = string(tn.Schema)
		return textResult("[]")
	})
	agenttest.Run(t, cfg, nil, func(h *harness) {
		_, err := agent.Spawn[[]finding](h.Context(), h.Main(), agent.Task{Text: "find"})
		require.NoError(t, err)
		synctest.Wait()
		require.JSONEq(t, `{"type":"array","items":{"type":"object","properties":{"claim":{"type":"string","description":"one sentence"},`+
			`"confidence":{"type":"number"}},"required":["claim","confidence"],"additionalProperties":false}}`, schema)
		type answer string // a string of another name is still text
		c, err := agent.Spawn[answer](h.Context(), h.Main(), agent.Task{Text: "find"})
		require.NoError(t, err)
		got, err := c.Wait(h.Context())
		require.NoError(t, err)
		require.Equal(t, answer("[]"), got)
		require.Empty(t, schema)
		_, err = agent.Spawn[chan int](h.Context(), h.Main(), agent.Task{Text: "find"})
		require.ErrorContains(t, err, "chan int")
		require.Len(t, h.Runs(), 2, "nothing is half done")
	})
}

// A result is what the Runner returned, byte for byte, on its way through Go.
func TestResultBytesSurvive(t *testing.T) {
	odd := "bell \a, nul \x00, not UTF-8 \xff\xfe\xc3(, a line\r\nand a fence ```\n"
	huge := strings.Repeat("ten megabytes. ", 10<<20/15)
	for name, s := range map[string]string{"odd": odd, "huge": huge} {
		t.Run(name, func(t *testing.T) {
			for _, store := range []func() *session.Store{session.NewMemory} {
				cfg := configAnswering(func(string) agent.Result { return agent.Result{Text: s} })
				cfg.Store, cfg.Limits.Reply = store(), agent.NoLimit
				cfg.Deliver = func(context.Context, agent.Delivery) error { return nil }
				agenttest.Run(t, cfg, nil, func(h *harness) {
					c, err := agent.Spawn[string](h.Context(), h.Main(),
						agent.Task{Text: "say it", Announce: true})
					require.NoError(t, err)
					got, err := c.Wait(h.Context())
					require.NoError(t, err)
					require.Equal(t, s, got)
					synctest.Wait()
					require.Equal(t, s, h.Deliveries()[0].Completion.Run.Result.Text)
					h.Crash()
					info, err := h.Runtime().Session(topKey).Runs(h.Context())
					require.NoError(t, err)
					res := info[0].Result // of a long one it has the beginning, and names the file
					require.True(t, strings.HasPrefix(s, res.Text))
					require.Equal(t, len(s) > len(res.Text), res.Whole.Size == int64(len(s)))
				})
			}
		})
	}
}

// The same through a journal that writes bytes.
func TestResultBytesSurviveWriting(t *testing.T) {
	odd := "nul \x00, not UTF-8 \xff\xfe\xc3("
	cfg := configAnswering(func(string) agent.Result {
		return agent.Result{
			Text: odd, JSON: json.RawMessage(`{"a" : 1}`), Model: "m",
			Files: []spawn.File{{Name: "a.txt", Path: "/tmp/a.txt", MediaType: "text/plain"}},
			Usage: agent.Usage{Input: 1, Output: 2, Cost: 0.25},
		}
	})
	cfg.Tools = toolbox("read", "write")
	memory := session.NewMemory()
	cfg.Store = &session.Store{
		Journal: bytesJournal{memory.Journal}, Transcripts: memory.Transcripts,
	}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		c, err := agent.Spawn[string](h.Context(), h.Main(),
			agent.Task{Text: "odd too: \xff", Label: "odd", Tools: []string{"read"}})
		require.NoError(t, err)
		_, err = c.Wait(h.Context())
		require.NoError(t, err)
		before := h.Child("odd")
		h.Crash()
		require.Equal(t, before, h.Child("odd"))
		require.Equal(t, odd, before.Result.Text)
	})
}

// bytesJournal is a journal that keeps bytes only, as one on disk does.
type bytesJournal struct{ session.Journal }

func (j bytesJournal) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (session.Seq, error) {
	written := b
	written.Entries = make([]session.Entry, len(b.Entries))
	for i, e := range b.Entries {
		data, err := e.Payload.AppendJSON(nil)
		if err != nil {
			return 0, err
		}
		written.Entries[i].Payload = session.Raw(data)
	}
	return j.Journal.Append(ctx, root, after, written)
}

// What is asked, chosen and really used is kept apart.
func TestModelsAreRecorded(t *testing.T) {
	cfg := configAnswering(func(string) agent.Result { return agent.Result{Text: "ok", Model: "vendor/actual-2026"} })
	cfg.Models.Model = "vendor/default"
	cfg.Models.Valid = func(name string) bool { return name != "vendor/bad" }
	agenttest.Run(t, cfg, nil, func(h *harness) {
		for _, c := range []struct{ asked, resolved string }{{"", "vendor/default"}, {"vendor/good", "vendor/good"}, {"vendor/bad", "vendor/default"}} {
			child, err := agent.Spawn[string](h.Context(), h.Main(),
				agent.Task{Text: "work", Model: c.asked})
			require.NoError(t, err)
			_, err = child.Wait(h.Context())
			require.NoError(t, err)
			info, err := child.Info(h.Context())
			require.NoError(t, err)
			want := spawn.ModelInfo{
				Requested: c.asked, Resolved: c.resolved, Actual: "vendor/actual-2026",
			}
			require.Equal(t, want, info.Model)
			require.Equal(t, c.asked == "vendor/bad", len(info.Warnings) > 0)
		}
		_, err := agent.Spawn[string](h.Context(), h.Main(),
			agent.Task{Text: "work", Model: "vendor/bad", Strict: true})
		require.ErrorContains(t, err, "vendor/bad")
		time.Sleep(time.Second)
	})
}
