package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/agent/anthropicmodel/anthropictest"
	"github.com/offshoot-sdk/offshoot/agent/mcp"
	"github.com/offshoot-sdk/offshoot/agent/openaimodel/openaitest"
	"github.com/offshoot-sdk/offshoot/agent/otel"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/stretchr/testify/require"
)

// asProgram makes the tests the program itself, and asServer an MCP server over stdio.
const (
	asProgram = "REALBOT_TEST_PROGRAM"
	asServer  = "mcp-server"
)

func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 1 && os.Args[1] == asServer:
		service := &mcp.Service{Tools: func(context.Context) []agent.Tool {
			return []agent.Tool{agent.NewTool("weather", "Weather in a city.", weather)}
		}}
		_ = service.Serve(context.Background(), os.Stdin, os.Stdout)
	case os.Getenv(asProgram) != "":
		main()
	default:
		m.Run()
	}
}

func weather(_ context.Context, in struct {
	City string `json:"city"`
},
) (string, error) {
	return "Sunny in " + in.City + ".", nil
}

// play is both agents: main gives the work away and says what comes of it, and the researcher asks
// its tool. A greeting is answered with the number of messages.
func play(c agenttest.ProviderCall) agenttest.ProviderAnswer {
	has := func(name string) bool {
		for _, t := range c.Tools {
			if t.Name == name {
				return true
			}
		}
		return false
	}
	call := func(name, args string) agenttest.ProviderAnswer {
		return agenttest.ProviderAnswer{Calls: []agent.ToolCall{
			{ID: "call_1", Name: name, Args: json.RawMessage(args)},
		}}
	}
	say := func(text ...string) agenttest.ProviderAnswer {
		return agenttest.ProviderAnswer{Text: text}
	}
	last := c.Messages[len(c.Messages)-1]
	switch {
	case has("mcp__tools__weather") && last.Role == session.MessageTool:
		return say(last.Text)
	case has("mcp__tools__weather"):
		return call("mcp__tools__weather", `{"city":"Lisbon"}`)
	case last.Role == session.MessageTool:
		return say("I will ", "look.")
	case strings.Contains(last.Text, "Sunny in Lisbon."):
		return say("Take ", "a hat.")
	case strings.Contains(string(c.Body), "Take a hat."):
		return say("I said: ", "a hat.")
	case strings.Contains(last.Text, "wear"):
		return call("sessions_spawn", `{"task":"Look at the sky.","agentId":"researcher"}`)
	}
	return say("Hello.")
}

// A page is an output that may be read while it is written.
type page struct {
	mu   sync.Mutex
	text strings.Builder
	has  string        // what a reader waits for
	seen chan struct{} // closed when it is there
}

func (p *page) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, err := p.text.Write(b)
	if p.seen != nil && strings.Contains(p.text.String(), p.has) {
		close(p.seen)
		p.seen = nil
	}
	return n, err
}

func (p *page) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// providers are the fakes. Each says in the options that its key is the one that is set.
var providers = map[string]func(*agenttest.Provider, *options) http.Handler{
	"OpenAI": func(p *agenttest.Provider, o *options) http.Handler {
		o.openai = p.Key
		return openaitest.Handler(p)
	},
	"Anthropic": func(p *agenttest.Provider, o *options) http.Handler {
		o.anthropic = p.Key
		return anthropictest.Handler(p)
	},
}

// each runs a test with each of the providers.
func each(t *testing.T, f func(t *testing.T, p *agenttest.Provider, o options)) {
	t.Helper()
	for name, service := range providers {
		t.Run(name, func(t *testing.T) {
			p, o := &agenttest.Provider{Key: "secret-of-the-test", Play: play}, options{}
			server := httptest.NewServer(service(p, &o))
			defer server.Close()
			o.base = server.URL
			if o.openai != "" {
				o.base += "/v1"
			}
			f(t, p, o)
			require.NoError(t, p.Err())
		})
	}
}

// A person asks, main has the researcher look with a tool of the MCP server, and says what comes of
// it. Another process goes on with the chat, and with its trace.
func TestGoesOnAfterARestart(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	each(t, func(t *testing.T, p *agenttest.Provider, o options) {
		o.mcp, o.state, o.trace = self+" "+asServer, filepath.Join(t.TempDir(), "state"), true
		looks := make(chan struct{}) // closed when main has said that it will look
		p.Play = func(c agenttest.ProviderCall) agenttest.ProviderAnswer {
			a := play(c)
			if len(a.Calls) > 0 && a.Calls[0].Name == "mcp__tools__weather" {
				<-looks
			}
			return a
		}
		talk := func(line, says string, spans ...string) {
			t.Helper()
			out := page{has: "I will look.\n", seen: looks}
			require.NoError(t, run(t.Context(), o, strings.NewReader(line+"\n"), &out))
			answers, traces := apart(t, out.String())
			require.Equal(t, says, answers)
			for _, want := range append(spans, "offshoot.turn", otel.TraceID("", chatKey)) {
				require.Contains(t, traces, want)
			}
			require.NotContains(t, traces, "a hat", "texts are not asked for")
		}
		talk("What shall I wear?", "I will look.\nTake a hat.\n",
			"invoke_agent researcher", "execute_tool mcp__tools__weather", `"Name":"chat `)
		first := len(p.Calls())
		require.Equal(t, 5, first)
		talk("What did you say?", "I said: a hat.\n")
		require.Len(t, p.Calls(), first+1)
		for _, c := range p.Calls() {
			require.NotContains(t, string(c.Body), p.Key)
		}
	})
}

// apart returns the lines of answers, and those of traces.
func apart(t *testing.T, out string) (answers, traces string) {
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, `{"Name":`) {
			answers += line
			continue
		}
		require.True(t, json.Valid([]byte(line)), line)
		traces += line
	}
	return answers, traces
}

// An answer is shown as it comes. One that breaks off is asked for again, on the next line.
func TestStreamsAnswers(t *testing.T) {
	each(t, func(t *testing.T, p *agenttest.Provider, o options) {
		long := strings.SplitAfter(strings.Repeat("once upon a time ", 50), " ")
		p.Answer(agenttest.ProviderAnswer{Text: long, Fault: agenttest.FaultStream})
		var out page
		require.NoError(t, run(t.Context(), o, strings.NewReader("hello\n"), &out))
		require.Regexp(t, `^once upon [a-z ]+\nHello\.\n$`, out.String())
	})
}

// What of a reply is on the screen is not shown again, whenever its last events come. Traces stand
// between the lines of answers.
func TestScreen(t *testing.T) {
	delta := func(turn, answer int, text string) agent.TreeEvent {
		return agent.TreeEvent{Kind: agent.EventDelta, Turn: turn, Answer: answer, Text: text}
	}
	reply := func(turn int, text string) agent.Delivery {
		return agent.Delivery{Reply: &agent.Reply{Turn: turn, Text: text}}
	}
	var out strings.Builder
	s := &screen{terminal: terminal{out: &out}}
	for _, x := range []any{
		"<1>\n", delta(1, 1, "I wi"), "<2>\n", delta(1, 2, "I will"), "<3>\n",
		reply(1, "I will look."), delta(1, 2, " look."), "<4>\n", reply(2, "Not streamed."),
		delta(3, 1, "One se"), reply(3, "Something else."),
		agent.TreeEvent{Kind: agent.EventDelta, Run: "1", Turn: 9, Text: "of a sub-agent"},
	} {
		switch x := x.(type) {
		case agent.TreeEvent:
			s.watch(func(yield func(agent.TreeEvent, error) bool) { yield(x, nil) })
		case agent.Delivery:
			require.NoError(t, s.reply(t.Context(), x))
		case string: // a trace
			_, err := s.Write([]byte(x))
			require.NoError(t, err)
		}
	}
	require.Equal(t, "<1>\nI wi\nI will look.\n<2>\n<3>\n<4>\nNot streamed.\nOne se\nSomething else.\n",
		out.String())

	// An answer that has broken off holds no trace back.
	out.Reset()
	s.watch(func(yield func(agent.TreeEvent, error) bool) { yield(delta(10, 1, "I w"), nil) })
	_, err := s.Write([]byte("<5>\n"))
	require.NoError(t, err)
	require.Equal(t, "I w", out.String())
	require.NoError(t, s.flush())
	require.NoError(t, s.flush())
	require.Equal(t, "I w\n<5>\n", out.String())
}

// Ctrl-C ends the program although the terminal stays open.
func TestEndsByInterrupt(t *testing.T) {
	each(t, func(t *testing.T, _ *agenttest.Provider, o options) {
		in, typing := io.Pipe()
		defer func() { _ = typing.Close() }()
		ctx, interrupt := context.WithCancel(t.Context())
		seen := make(chan struct{})
		out := page{has: "Hello.\n", seen: seen}
		ended := make(chan error, 1)
		go func() { ended <- run(ctx, o, in, &out) }()
		_, err := io.WriteString(typing, "hello\n")
		require.NoError(t, err)
		<-seen
		interrupt()
		require.NoError(t, <-ended)
		require.Equal(t, "Hello.\n", out.String())
	})
}

// What cannot be opened is an error that says what to do, and nothing is left open.
func TestWhatCannotBeOpened(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	for want, o := range map[string]options{
		"set either OPENAI_API_KEY or ANTHROPIC_API_KEY":      {},
		"realbot: set either OPENAI_API_KEY or ANTHROPIC_API": {openai: "a", anthropic: "b"},
		"BaseURL":       {anthropic: "b", base: "nowhere"},
		"no-such-tools": {openai: "a", state: state, mcp: "no-such-tools -x"},
	} {
		for range 2 { // the second finds the directory unlocked
			err := run(t.Context(), o, strings.NewReader(""), io.Discard)
			require.ErrorContains(t, err, want)
		}
	}
}

// command returns the program, which has not been started. It is ended with the test.
func command(t *testing.T, o options, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", asProgram+"=1",
		"OPENAI_API_KEY="+o.openai, "ANTHROPIC_API_KEY="+o.anthropic)
	return cmd
}

// An answer for which the process died is given by the next one. One during which a person presses
// Ctrl-C is given before the end.
func TestEndsInTheMiddleOfAnAnswer(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there a process ends in another way")
	}
	each(t, func(t *testing.T, p *agenttest.Provider, o options) {
		state := filepath.Join(t.TempDir(), "state")
		asked, goOn := make(chan struct{}, 9), make(chan struct{}, 9)
		p.Play = func(c agenttest.ProviderCall) agenttest.ProviderAnswer {
			asked <- struct{}{}
			<-goOn
			return play(c)
		}
		start := func() (cmd *exec.Cmd, in io.WriteCloser, out *bytes.Buffer) {
			cmd, out = command(t, o, "-base", o.base, "-state", state), &bytes.Buffer{}
			cmd.Stdout = out
			in, err := cmd.StdinPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			return cmd, in, out
		}
		cmd, in, out := start()
		_, err := io.WriteString(in, "hello\n")
		require.NoError(t, err)
		<-asked
		require.NoError(t, cmd.Process.Kill())
		require.Error(t, cmd.Wait())
		require.Empty(t, out.String())
		goOn <- struct{}{}

		cmd, _, out = start() // its terminal stays open
		<-asked
		require.NoError(t, cmd.Process.Signal(os.Interrupt))
		goOn <- struct{}{}
		require.NoError(t, cmd.Wait())
		require.Equal(t, "Hello.\n", out.String())
	})
}

// The program says what it is when it is asked, and refuses what it does not know.
func TestProgram(t *testing.T) {
	program := func(args ...string) (code int, out string) {
		cmd := command(t, options{}, args...)
		all, _ := cmd.CombinedOutput()
		return cmd.ProcessState.ExitCode(), string(all)
	}
	for _, c := range []struct {
		arg  string
		code int
		says string
	}{
		{"-h", 0, usage},
		{"--help", 0, usage},
		{"surplus", 2, `realbot: unexpected argument "surplus"`},
		{"-surplus", 2, "-surplus"},
		{"-trace", 1, "OPENAI_API_KEY"},
	} {
		code, out := program(c.arg)
		require.Equal(t, c.code, code, c.arg)
		require.Contains(t, out, c.says)
	}
}

// The second listing of the README is the bot, which is short: less than 60 lines behind its
// imports, without those that are empty or comments.
func TestReadmeShowsThisProgram(t *testing.T) {
	bot, err := os.ReadFile("bot.go")
	require.NoError(t, err)
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	parts := strings.SplitN(string(readme), "```go\n", 3)
	require.Len(t, parts, 3)
	shown, _, _ := strings.Cut(parts[2], "```\n")
	require.Equal(t, string(bot), shown)
	_, code, found := strings.Cut(string(bot), "\n)\n")
	require.True(t, found)
	n := 0
	for line := range strings.Lines(code) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
			n++
		}
	}
	require.Less(t, n, 60)
}
