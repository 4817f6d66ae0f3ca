package mcp

import (
	"context"
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The first attempt is made at once, and the pauses grow up to a limit.
func TestPause(t *testing.T) {
	assert.Zero(t, pause(0))
	assert.Equal(t, firstPause, pause(1))
	assert.Equal(t, 2*firstPause, pause(2))
	for n := range 100 {
		assert.LessOrEqual(t, pause(n), pause(n+1))
		assert.LessOrEqual(t, pause(n), maxPause)
	}
	assert.Equal(t, maxPause, pause(100))
}

func TestEnvironment(t *testing.T) {
	all := []string{"PATH=/bin", "Path=C:", "LC_ALL=C", "AWS_SECRET=x", "HOMEBREW_TOKEN=x", "BAD"}
	assert.Equal(t, []string{"PATH=/bin", "Path=C:", "LC_ALL=C", "PATH=/mine"},
		environment(all, []string{"PATH=/mine"}))
	assert.NotNil(t, environment(nil, nil)) // nil would be the whole environment
}

func TestIsWithin(t *testing.T) {
	for _, tt := range []struct {
		origin, address string
		is              bool
	}{
		{"https://a.example", "https://a.example/mcp", true},
		{"https://A.example", "https://a.example", true},
		{"https://a.example", "https://a.example?x", true},
		{"https://a.example", "https://a.example.evil/mcp", false},
		{"https://a.example", "https://a.example:8443/mcp", false},
		{"http://a.example", "https://a.example/mcp", false},
		{"https://a", "https://a.example/mcp", false},
	} {
		assert.Equal(t, tt.is, isWithin(tt.origin, tt.address), "%s %s", tt.origin, tt.address)
	}
}

// Names are unique in any letter case, fit a model, and do not depend on the order of the list.
func TestRename(t *testing.T) {
	const letters = "aAbB._-/ é"
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		own := map[string]bool{}
		for range 1 + r.IntN(30) {
			var b strings.Builder
			for range r.IntN(4) + 100*r.IntN(2) {
				b.WriteRune([]rune(letters)[r.IntN(len([]rune(letters)))])
			}
			own[b.String()] = true
		}
		var list []definition
		for name := range own {
			list = append(list, definition{own: name})
		}
		rename("server", list)
		names, seen := map[string]string{}, map[string]bool{}
		for _, d := range list {
			names[d.own] = d.name
			require.LessOrEqual(t, len(d.name), maxToolName)
			require.True(t, strings.HasPrefix(d.name, "mcp__server__"))
			require.Regexp(t, `^[a-zA-Z0-9_-]+$`, d.name)
			require.False(t, seen[strings.ToLower(d.name)], "%q %q", d.own, d.name)
			seen[strings.ToLower(d.name)] = true
		}
		slices.Reverse(list)
		rename("server", list)
		for _, d := range list {
			require.Equal(t, names[d.own], d.name)
		}
	}
}

// A name that is too long, or not unique, ends with a hash of the server's own name, as the README
// has it.
func TestHashedNames(t *testing.T) {
	for want, own := range map[string][]string{
		"mcp__files__a_b": {"a.b"},
		"mcp__files__" + strings.Repeat("x", 43) + "_09ecb6eb": {strings.Repeat("x", 100)},
		"mcp__files__" + strings.Repeat("x", 52):               {strings.Repeat("x", 52)},
		"mcp__files__" + strings.Repeat("x", 43) + "_8a04a39a": {strings.Repeat("x", 53)},
	} {
		list := []definition{{own: own[0]}}
		rename("files", list)
		require.Equal(t, want, list[0].name)
	}
}

// Two tools whose names have the same beginning and the same hash are one for models, and which one
// it is does not depend on the order of the list.
func TestDistinct(t *testing.T) {
	long := strings.Repeat("x", maxToolName)
	seen := map[string]string{}
	var one, other string
	for i := 0; one == ""; i++ { // some 80,000 rounds
		own := long + strconv.Itoa(i)
		name := modelName("server", own, true)
		if first, ok := seen[name]; ok {
			one, other = min(first, own), max(first, own)
		}
		seen[name] = own
	}
	l := &link{log: slog.New(slog.DiscardHandler)}
	for _, order := range [][]string{{one, other, "t"}, {"t", other, one}} {
		var list []definition
		for _, own := range order {
			list = append(list, definition{own: own})
		}
		rename("server", list)
		list = l.distinct(list)
		require.Len(t, list, 2)
		require.Equal(t, "t", list[0].own)
		require.Equal(t, one, list[1].own)
	}
}

func TestDiff(t *testing.T) {
	a, b := definition{name: "a"}, definition{name: "b"}
	b2 := definition{name: "b", schema: json.RawMessage(`{}`)}
	c := definition{name: "c"}
	assert.Equal(t, Change{}, diff([]definition{a, b}, []definition{a, b}))
	assert.Equal(t, Change{Added: []string{"c"}, Removed: []string{"a"}, Modified: []string{"b"}},
		diff([]definition{a, b}, []definition{b2, c}))
	assert.Equal(t, Change{Added: []string{"a"}}, diff(nil, []definition{a}))
}

func TestTexts(t *testing.T) {
	assert.Equal(t, "a\nb\tc", clean(" a\nb\tc\x1b\u202e\x00 "))
	assert.Equal(t, "\uFFFD", clean("\xff"))
	assert.Equal(t, "a b", oneLine("a\n\n b"))
	for n := 3; n < 12; n++ {
		s := bounded("é€😀abc", n)
		assert.LessOrEqual(t, len(s), n)
		assert.True(t, utf8.ValidString(s))
	}
	for uri, want := range map[string]string{
		"file:///a/b.txt": "b.txt", "file:///a/": "a", `c:\x\y.png`: "y.png", "note:x?y=/z": "x",
		"": "", "a/../..": "..", "https://e/x#/y": "x",
	} {
		assert.Equal(t, want, fileName(uri), uri)
	}
}

// What a server says of how far it is is masked, and then bounded.
func TestSecretsOfProgress(t *testing.T) {
	const token = "hunter2-of-a-server"
	l := newLink(&Config{Logger: slog.New(slog.DiscardHandler)}, Server{
		Name: "a", Env: []string{"SERVICE_TOKEN=" + token},
	})
	for _, before := range []int{0, 1, maxLine - 10, maxLine} {
		var told agent.Progress
		id, done := l.tokens.begin(func(p agent.Progress) { told = p })
		l.tokens.tell(&sdk.ProgressNotificationParams{
			ProgressToken: id, Message: strings.Repeat("p", before) + " " + token + ", half way",
		})
		done()
		require.NotEmpty(t, told.Text)
		require.NotContains(t, told.Text, token[:4])
		require.LessOrEqual(t, len(told.Text), maxLine)
	}
}

// Headers that have no secret, and variables and arguments that do not look like one, are not
// masked in what a server makes.
func TestWordsThatStay(t *testing.T) {
	s := Server{
		Header:  http.Header{"Accept-Language": {"German"}, "user-agent": {"robot of mine"}},
		Env:     []string{"COLOUR=blue-green"},
		Command: []string{"serve", "--colour", "yellow", "--key-file=/etc/keys"},
		URL:     "https://example.com/?colour=purple",
	}.orDefault()
	const text = "German robot of mine blue-green serve yellow purple /etc/keys"
	assert.Equal(t, text, s.maskedOwn(text))
	s = Server{Command: []string{
		"serve", "--token", "hunter2-of-a-server", "--api-key=hunter3-of-a-server",
	}}.orDefault()
	assert.Equal(t, "*** *** --token", s.maskedOwn("hunter2-of-a-server hunter3-of-a-server --token"))
	const schema = `{"type":"object","title":"hunter2-of-a-server"}`
	assert.JSONEq(t, `{"type":"object","title":"***"}`,
		string(s.maskedSchema(json.RawMessage(schema))))
	s = Server{Header: http.Header{"X-Odd": {`"object","title"`}}}.orDefault()
	assert.Equal(t, anyObject, string(s.maskedSchema(json.RawMessage(schema))))
}

func TestObjectSchema(t *testing.T) {
	for given, want := range map[string]string{
		"": anyObject, "null": anyObject, "true": anyObject, "[1]": anyObject,
		`{"type":"object","title":"x"}`: `{"type":"object","title":"x"}`,
		`{"title":"x"}`:                 `{"title":"x","type":"object"}`,
	} {
		assert.Equal(t, want, string(objectSchema(json.RawMessage(given))), given)
	}
}

// Lines of a child process are logged one by one, bounded, and the end is kept.
func TestTail(t *testing.T) {
	var b strings.Builder
	log := slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s := tail{log: log, mask: func(text string) string { return text }}
	for _, piece := range []string{"one\ntw", "o\n\n", strings.Repeat("x", 5000), "\nlast"} {
		n, err := s.Write([]byte(piece))
		require.NoError(t, err)
		require.Equal(t, len(piece), n)
	}
	s.flush()
	assert.Equal(t, 4, strings.Count(b.String(), "stderr="))
	assert.Contains(t, b.String(), "stderr=two\n")
	assert.NotContains(t, b.String(), strings.Repeat("x", maxLine+1))
	assert.True(t, strings.HasSuffix(s.last(), "x\nlast"))
	assert.LessOrEqual(t, len(s.last()), maxTail)
}

// Calls belong to one message until none has come for a while: so they count together against the
// limit of runs of one message, and a later message has its own.
func TestSessionToolsCountTogether(t *testing.T) {
	cfg := agent.Config{
		Deliver: func(context.Context, agent.Delivery) error { return nil },
		Logger:  slog.New(slog.DiscardHandler),
		Runner: agent.RunnerFunc(func(context.Context, *agent.Turn) (agent.Result, error) {
			return agent.Result{Text: "done"}, nil
		}),
	}
	cfg.Rules.Subagents.MaxRunsPerRequest = 2
	rt, err := agent.Open(t.Context(), cfg)
	require.NoError(t, err)
	now := time.Now()
	set := &toolSet{
		of:  rt.Session(session.Must(session.DirectKey("main", "cli", "me"))),
		now: func() time.Time { return now },
	}
	spawn := func() string {
		tools := set.tools()
		i := slices.IndexFunc(tools, func(t agent.Tool) bool { return t.Name == "sessions_spawn" })
		out, err := tools[i].Call(t.Context(), agent.ToolCall{
			ID: session.NewID(), Name: "sessions_spawn", Args: json.RawMessage(`{"task":"x"}`),
		})
		if err != nil {
			return err.Error()
		}
		return out.Text
	}
	assert.Contains(t, spawn(), "accepted")
	now = now.Add(SessionIdle - 1)
	assert.Contains(t, spawn(), "accepted")
	now = now.Add(SessionIdle - 1)
	assert.NotContains(t, spawn(), "accepted")
	now = now.Add(SessionIdle)
	assert.Contains(t, spawn(), "accepted")
}

// A probe of a schema takes little time: a server may have hundreds of tools.
func BenchmarkRefused(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if err := refused(b.Context(), json.RawMessage(anyObject)); err != nil {
			b.Fatal(err)
		}
	}
}

// A function that is told of changes and hangs is left behind, and is told of the next change when
// it has returned.
func TestChangedThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged strings.Builder
		var told atomic.Int64
		goOn := make(chan struct{})
		l := &link{
			log:     slog.New(slog.NewTextHandler(&logged, nil)),
			changed: func(Change) { told.Add(1); <-goOn },
		}
		began := time.Now()
		l.tell(t.Context(), l.relist([]definition{{name: "a"}}))
		require.Equal(t, changedLimit, time.Since(began))
		l.tell(t.Context(), l.relist([]definition{{name: "b"}}))
		require.Equal(t, changedLimit, time.Since(began), "it is not waited for again")
		require.EqualValues(t, 1, told.Load())
		require.Contains(t, logged.String(), "is left behind")
		require.Contains(t, logged.String(), "is not told")
		goOn <- struct{}{}
		synctest.Wait()
		ctx, end := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, end)
		began = time.Now()
		l.tell(ctx, l.relist([]definition{{name: "c"}}))
		require.Equal(t, time.Second+patience, time.Since(began), "the end of ctx")
		require.EqualValues(t, 2, told.Load())
		require.Equal(t, "c", l.list[0].name)
		close(goOn)
	})
}

// A function that is told of changes and does not return costs its call alone, and is logged.
func TestChangedThatMisbehaves(t *testing.T) {
	var none *link
	for name, f := range map[string]func(){
		"panicked with a text": func() { panic("of the program") },
		"panicked at a nil":    func() { none.starts++ },
		"ended its goroutine":  runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			var logged strings.Builder
			told := 0
			l := &link{
				log:     slog.New(slog.NewTextHandler(&logged, nil)),
				changed: func(Change) { told++; f() },
			}
			l.tell(t.Context(), l.relist([]definition{{name: "a"}}))
			l.tell(t.Context(), l.relist([]definition{{name: "a"}, {name: "b"}}))
			require.Equal(t, 2, told)
			word, _, _ := strings.Cut(name, " ")
			require.Equal(t, 2, strings.Count(logged.String(), "Config.Changed "+word))
			require.Len(t, l.list, 2)
		})
	}
}
