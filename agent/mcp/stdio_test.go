package mcp_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent/mcp"
)

// A rawChild is a server over stdio that does without the SDK. The argument how of its tool says in
// which way the answer is too large, or which method it calls at its client first.
type rawChild struct {
	in     *bufio.Scanner
	out    io.Writer
	called int
	odd    oddAnswers
}

// A rawMessage is what its client sends.
type rawMessage struct {
	ID     json.RawMessage
	Method string
	Params struct{ Arguments struct{ How string } }
	Error  struct{ Message string }
	Result map[string]any
}

// next returns the next message; false: there is none.
func (c *rawChild) next() (m rawMessage, ok bool) {
	ok = c.in.Scan()
	_ = json.Unmarshal(c.in.Bytes(), &m)
	return m, ok
}

// say sends a message.
func (c *rawChild) say(format string, args ...any) {
	fmt.Fprintf(c.out, format+"\n", args...)
}

// The forms of its answers.
const (
	rawForm = `{"jsonrpc":"2.0","id":%s,"result":%s}`
	rawText = `{"content":[{"type":"text","text":"%s"}]}`
)

// rawBig is as large as a message may be, without what is around it.
var rawBig = strings.Repeat("y", mcp.MaxMessage)

// serve answers until there is nothing more to read.
func (c *rawChild) serve() {
	for {
		switch asked, ok := c.next(); {
		case !ok:
			return
		case asked.ID == nil:
		case asked.Method == "initialize":
			c.say(rawForm, asked.ID, `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},`+
				`"serverInfo":{"name":"x","version":"1"}}`)
		case asked.Method == "tools/list":
			list := `"tools":[{"name":"t","inputSchema":{"type":"object"},` +
				`"annotations":{"readOnlyHint":true}}]}`
			if os.Getenv("OFFSHOOT_MCP_LIST") != "" {
				list = `"x":"` + rawBig + `",` + list
			}
			if c.odd.List != "" {
				list = `"tools":[` + c.odd.List + "]}"
			}
			c.say(rawForm, asked.ID, "{"+list)
		case asked.Method == "tools/call":
			c.called++
			c.answer(asked.ID, asked.Params.Arguments.How)
		default:
			c.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"?"}}`, asked.ID)
		}
	}
}

// answer answers a call in some way.
func (c *rawChild) answer(id json.RawMessage, how string) {
	said := fmt.Sprintf("call %d", c.called)
	told := func() {
		m, _ := c.next()
		said = strings.ReplaceAll(fmt.Sprint(m.Error.Message, m.Result), `"`, "")
	}
	switch room := mcp.MaxMessage - len(fmt.Sprintf(rawForm, id, fmt.Sprintf(rawText, ""))); how {
	case "just fits":
		said = rawBig[:room]
	case "one more":
		said = rawBig[:room+1]
	case "id last":
		c.say(`{"result":{"id":-1,"x":["%s"]},"jsonrpc":"2.0","id":%s}`, rawBig, id)
		return
	case "an end but no id":
		c.say("%sy", rawBig)
		return
	case "no message":
		c.say("Listening on port 80.")
		return
	case "without an end":
		fmt.Fprintf(c.out, `{"id":%s,"result":"`, id)
		for n := 0; n < most; n += len(rawBig) {
			if _, err := io.WriteString(c.out, rawBig); err != nil {
				return
			}
		}
	case "odd":
		if c.odd.Before != "" {
			c.say("%s", c.odd.Before)
		}
		c.say(rawForm, id, c.odd.Result)
		return
	case "a notification":
		c.say(`{"jsonrpc":"2.0","method":"notifications/message","params":"%s"}`, rawBig)
	case "a request":
		c.say(`{"id":"q","jsonrpc":"2.0","params":"%s","method":"ping"}`, rawBig)
		told()
	case "sampling/createMessage", "elicitation/create", "roots/list", "tasks/get":
		c.say(`{"id":"q","jsonrpc":"2.0","method":"%s","params":{}}`, how)
		told()
	}
	c.say(rawForm, id, fmt.Sprintf(rawText, said))
}

// What a child process says that is not a message breaks the connection: the call is lost, and the
// server is started anew.
func TestWhatIsNotAMessage(t *testing.T) {
	c := connect(t, mcp.Config{Servers: []mcp.Server{childServer(t, "raw")}})
	_, err := call(t, c, "mcp__child__t", `{"how":"no message"}`)
	var lost *mcp.LostError
	require.ErrorAs(t, err, &lost)
	require.Equal(t, "child", lost.Server)
	require.Equal(t, "call 1", mustCall(t, c, "mcp__child__t", `{}`).Text)
	require.Equal(t, 2, c.Servers()[0].Starts)
}

// A message of a child process that is too large costs the call that it answers, for which another
// try is not worth it. The connection goes on, or is made anew if the message has no end or is
// not the answer to a call.
func TestMessagesOfAChildThatAreTooLarge(t *testing.T) {
	for how, want := range map[string]struct {
		text   string // of the result; "": it is too large
		starts int    // in the end
	}{
		"just fits":        {"y", 1},
		"one more":         {"", 1},
		"id last":          {"", 1},
		"without an end":   {"", 2},
		"an end but no id": {"", 2},
		"a notification":   {"call 1", 1},
		"a request":        {"offshoot/left_out", 1},
	} {
		t.Run(how, func(t *testing.T) {
			c := connect(t, mcp.Config{Servers: []mcp.Server{childServer(t, "raw")}})
			out, err := call(t, c, "mcp__child__t", `{"how":"`+how+`"}`)
			if want.text != "" {
				require.NoError(t, err)
				require.Contains(t, out.Text, want.text)
			} else {
				var size *mcp.SizeError
				require.ErrorAs(t, err, &size)
				require.Equal(t, mcp.SizeError{
					Server: "child", Tool: "mcp__child__t", Limit: mcp.MaxMessage,
				}, *size)
				require.False(t, agent.IsRetryable(err))
			}
			require.Eventually(t, func() bool { // the connection may be about to break
				out, err = call(t, c, "mcp__child__t", `{}`)
				return err == nil
			}, time.Minute, 10*time.Millisecond)
			require.Equal(t, want.starts, c.Servers()[0].Starts)
			if want.starts == 1 {
				require.Equal(t, "call 2", out.Text)
			}
		})
	}
}

// A child process whose list is too large does not start, and the error says why.
func TestListOfAChildThatIsTooLarge(t *testing.T) {
	srv := childServer(t, "raw")
	srv.Env = append(srv.Env, "OFFSHOOT_MCP_LIST=large")
	leaks(t)
	_, err := mcp.Connect(t.Context(), mcp.Config{
		Servers: []mcp.Server{srv}, Logger: slog.New(slog.DiscardHandler),
	})
	var start *mcp.StartError
	require.ErrorAs(t, err, &start)
	require.ErrorContains(t, err, "has sent more than 16777216 bytes")
}
