package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
)

// A windowedChat is a model that chats at random, and checks every call that it gets. It counts
// tokens by itself.
type windowedChat struct {
	t       *testing.T
	rng     *rand.Rand
	perRune int // thousandths of a token
	window  agent.Window

	said    []string // the keys of all messages, in order
	left    int      // steps of the turn
	calls   int
	most    int // messages in a call
	sums    int // calls for a summary
	partial int // calls with something cut
}

// texts is the number of tokens that a text has.
func (c *windowedChat) texts(s string) int { return utf8.RuneCountInString(s) * c.perRune / 1000 }

// tokens returns what a call takes.
func (c *windowedChat) tokens(req *agent.ModelRequest) int {
	n := c.texts(req.Prompt.String())
	for _, tool := range req.Tools {
		n += c.texts(tool.Name + tool.Description + string(tool.Schema))
	}
	for _, m := range req.Messages {
		n += 4 + c.texts(m.Text+m.ToolCallID) + 1500*len(m.Parts)
		for _, call := range m.ToolCalls {
			n += 4 + c.texts(call.ID+call.Name+string(call.Args))
		}
	}
	return n
}

// text returns a text of random length that begins with a key.
func (c *windowedChat) text(key string) string {
	n := c.rng.IntN(200)
	switch c.rng.IntN(40) {
	case 0:
		n = c.rng.IntN(150_000)
	case 1, 2, 3:
		n = c.rng.IntN(6_000)
	}
	unit := []string{"word ", "w", "é", "\n", "<tag> ", "\u65e5"}[c.rng.IntN(6)]
	return key + " " + strings.Repeat(unit, n/len(unit)) + "."
}

func (c *windowedChat) Generate(
	_ context.Context, req *agent.ModelRequest,
) (*agent.ModelResponse, error) {
	used := c.tokens(req)
	require.LessOrEqual(c.t, used, c.window.Tokens, "call %d has %d messages", c.calls,
		len(req.Messages))
	require.NoError(c.t, agenttest.CheckConversation(req.Messages))
	if _, ok := req.Prompt.Section("summary"); ok {
		return c.summarize(req)
	}
	c.calls++
	c.check(req.Messages)
	var u agent.Usage
	if c.rng.IntN(4) > 0 {
		cached := c.rng.IntN(used + 1)
		written := c.rng.IntN(used - cached + 1)
		u = agent.Usage{
			Input: int64(used - cached - written), CacheRead: int64(cached),
			CacheWrite: int64(written), Output: int64(c.rng.IntN(100)),
		}
	}
	resp := &agent.ModelResponse{Usage: u}
	key := "m" + strconv.Itoa(len(c.said))
	resp.Text = c.text(key)
	if c.left--; c.left > 0 {
		for i := range 1 + c.rng.IntN(4) {
			id := fmt.Sprintf("%s-%d", key, i)
			args, err := json.Marshal(map[string]string{"say": c.text(id)})
			require.NoError(c.t, err)
			resp.ToolCalls = append(resp.ToolCalls,
				agent.ToolCall{ID: id, Name: "look", Args: args})
		}
	}
	c.said = append(c.said, key)
	for _, call := range resp.ToolCalls {
		c.said = append(c.said, call.ID)
	}
	return resp, nil
}

// summarize answers a call for a summary, or does not.
func (c *windowedChat) summarize(req *agent.ModelRequest) (*agent.ModelResponse, error) {
	c.sums++
	require.Len(c.t, req.Messages, 1)
	switch c.rng.IntN(6) {
	case 0:
		return nil, errors.New("overloaded")
	case 1:
		return &agent.ModelResponse{}, nil
	case 2:
		return &agent.ModelResponse{Text: strings.Repeat("They went on. ", 50_000)}, nil
	}
	return &agent.ModelResponse{Text: "They looked at " + strconv.Itoa(c.calls) + " things."}, nil
}

var leftOutMessages = regexp.MustCompile(
	`The conversation began with (\d+) messages? more|\[Offshoot\] (\d+) messages? (?:is|are) left out here`)

// check checks that a call is shown the end of the conversation, in order and without a gap, and is
// told how many messages are not there.
func (c *windowedChat) check(messages []agent.Message) {
	told, keys := 0, []string(nil)
	for _, m := range messages {
		if m.Internal {
			n := leftOutMessages.FindStringSubmatch(m.Text)
			require.NotNil(c.t, n, "%q", m.Text)
			for _, digits := range n[1:] {
				more, _ := strconv.Atoi(digits) // "" is none
				told += more
			}
			continue
		}
		key, _, _ := strings.Cut(m.Text, " ")
		if m.Role == session.MessageTool {
			key = m.ToolCallID
		}
		keys = append(keys, key)
		if strings.Contains(m.Text, "left out here") {
			c.partial++
		}
	}
	c.most = max(c.most, len(keys))
	require.Equal(c.t, len(c.said), told+len(keys), "told of %d, shown %d", told, len(keys))
	require.True(c.t, slices.Equal(c.said[told:], keys), "%v\n%v", c.said[told:], keys)
}

// look is a tool that returns a text and, now and then, pictures.
func (c *windowedChat) look(context.Context, struct {
	Say string `json:"say"`
},
) (agent.ToolResult, error) {
	res := agent.ToolResult{Text: c.text("seen")}
	if c.rng.IntN(5) == 0 {
		for range 1 + c.rng.IntN(3) {
			res.Parts = append(res.Parts, agent.Part{
				Kind: session.PartImage, MediaType: "image/png", Data: []byte("png"),
			})
		}
	}
	if c.rng.IntN(10) == 0 {
		return agent.ToolResult{}, errors.New(res.Text)
	}
	return res, nil
}

// A chat of months stays within the window on every single call, whatever is said in it. Under the
// race detector it is a chat of weeks.
func TestChatStaysWithinItsWindow(t *testing.T) {
	for name, c := range map[string]struct {
		messages, steps, tokens, keep, perRune int
		count                                  bool
	}{
		"long":              {10_000, 40, 16_000, 0, 250, false},
		"short turns":       {600, 2, 9_000, 0, 250, false},
		"small":             {1_500, 12, 7_000, 5, 250, false},
		"counted":           {1_500, 12, 16_000, 8, 400, true},
		"the usage is more": {1_500, 12, 24_000, 20, 300, false},
		"wide":              {1_500, 20, 100_000, 30, 250, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if underRace {
				c.messages /= 5
			}
			chat := &windowedChat{t: t, rng: rand.New(rand.NewPCG(7, 9)), perRune: c.perRune}
			chat.window = agent.Window{
				Tokens: c.tokens, Keep: c.keep, Compact: agent.Summarize(chat),
			}
			if c.count {
				chat.window.Count = func(s string) int { return chat.texts(s) + 1 }
			}
			look := agent.NewTool("look", "Looks at a thing.", chat.look)
			cfg := agent.Config{
				Runner: &agent.Loop{Model: chat, MaxSteps: c.steps + 1}, Tools: []agent.Tool{look},
			}
			cfg.Models.Window = func(string) agent.Window { return chat.window }
			agenttest.Run(t, cfg, nil, func(h *harness) {
				for len(chat.said) < c.messages && !t.Failed() {
					chat.left = 1 + chat.rng.IntN(c.steps)
					key := "u" + strconv.Itoa(len(chat.said))
					chat.said = append(chat.said, key)
					h.Post(chat.text(key))
					h.Pass(time.Second)
					if chat.rng.IntN(50) == 0 {
						h.Crash()
					}
				}
				require.Positive(t, chat.sums)
				require.Positive(t, chat.partial)
				t.Logf("%d calls, %d for summaries, %d with something cut, at most %d messages",
					chat.calls, chat.sums, chat.partial, chat.most)
			})
		})
	}
}
