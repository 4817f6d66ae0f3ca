package agent_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// The beginnings of files by which their types are known.
const (
	pngBytes  = "\x89PNG\r\n\x1a\n"
	jpegBytes = "\xff\xd8\xff\xe0"
	pdfBytes  = "%PDF-1.7\n"
	zipBytes  = "PK\x03\x04"
	oggBytes  = "OggS\x00\x02"
	mp4Bytes  = "\x00\x00\x00\x18ftypmp42\x00\x00\x00\x00mp42isom"
)

// picture returns a Part with the bytes of a picture.
func picture(name string, size int) agent.Part {
	return agent.Part{
		Kind: agent.PartImage, MediaType: "image/png", Name: name,
		Data: []byte(pngBytes + strings.Repeat("x", max(size-len(pngBytes), 0))),
	}
}

// partsTool returns a tool that answers with a text and parts.
func partsTool(parts ...agent.Part) agent.Tool {
	return agent.NewTool("look", "", func(context.Context, struct{}) (agent.ToolResult, error) {
		return agent.ToolResult{Text: "seen", Parts: parts}, nil
	})
}

// inStores runs a test over the stores of this module that keep files, in a bubble each. What open
// returns is the store after a restart of the program.
func inStores(t *testing.T, test func(t *testing.T, open func() *session.Store)) {
	t.Helper()
	t.Run("in memory", func(t *testing.T) {
		store := session.NewMemory()
		synctest.Test(t, func(t *testing.T) { test(t, func() *session.Store { return store }) })
	})
	t.Run("in a directory", func(t *testing.T) {
		inDirectory(t, func(t *testing.T, _ string, open func() *session.Store) { test(t, open) })
	})
}

// inDirectory is inStores for the store of a directory.
func inDirectory(
	t *testing.T, test func(t *testing.T, dir string, open func() *session.Store),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		dir, store := t.TempDir(), new(session.Store)
		test(t, dir, func() *session.Store {
			require.NoError(t, store.Close())
			var err error
			store, err = dirstore.Open(dir)
			require.NoError(t, err)
			return store
		})
		require.NoError(t, store.Close())
	})
}

// runTurns is a program that takes messages and ends.
func runTurns(t *testing.T, cfg agent.Config, texts ...string) {
	t.Helper()
	rt, err := agent.Open(t.Context(), cfg)
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- rt.Run(t.Context()) }()
	for _, text := range texts {
		require.NoError(t, rt.Session(topKey).Post(t.Context(), agent.Incoming{Text: text}))
		require.NoError(t, rt.Session(topKey).Idle(t.Context()))
	}
	require.NoError(t, rt.Shutdown(t.Context()))
	require.NoError(t, <-done)
}

// withoutFiles returns a store in memory that keeps no files.
func withoutFiles() *session.Store {
	store := session.NewMemory()
	store.Files = nil
	return store
}

type (
	namedText  string
	listValue  struct{ Next *listValue }
	panickingE struct{}
)

func (panickingE) MarshalJSON() ([]byte, error) { panic(panicSecret) }

var someTime = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func answerOf[Out any](out Out) agent.Tool {
	return agent.NewTool("t", "", func(context.Context, struct{}) (Out, error) { return out, nil })
}

// Issue 12: what the function of a NewTool returns is told to the model: a text as it is, and any
// other value as JSON.
func TestAnswersOfNewTool(t *testing.T) {
	for want, tool := range map[string]agent.Tool{
		"plain <b>":                answerOf("plain <b>"),
		"named":                    answerOf(namedText("named")),
		"a result":                 answerOf(agent.ToolResult{Text: "a result"}),
		`{"Next":{"Next":null}}`:   answerOf(listValue{Next: &listValue{}}),
		`{"a":"<b> & é"}`:          answerOf(map[string]string{"a": "<b> & é"}),
		`[]`:                       answerOf([]int(nil)),
		`{}`:                       answerOf(map[string]int(nil)),
		`""`:                       answerOf([]byte(nil)),
		`7`:                        answerOf[any](7),
		`"2026-01-02T03:04:05Z"`:   answerOf(someTime),
		`error: agent: the answer`: answerOf[any](nil),
		`error: agent: the answer of tool "t": it is nil`:            answerOf[*int](nil),
		`error: agent: the answer of tool "t": it cannot be encoded`: answerOf(math.NaN()),
	} {
		answer := answerOfTool(t, tool, `{}`)
		require.True(t, strings.HasPrefix(answer, want), "%q is not %q", answer, want)
	}
	for _, tool := range []agent.Tool{
		answerOf[any](nil), answerOf[any](func() {}), answerOf(panickingE{}), answerOf(math.Inf(1)),
	} {
		out, err := tool.Call(t.Context(), agent.ToolCall{})
		require.Empty(t, out)
		bad, ok := errors.AsType[*agent.ToolValueError](err)
		require.True(t, ok, "%v", err)
		require.Equal(t, "t", bad.Tool)
		require.NotContains(t, err.Error(), panicSecret)
		require.Less(t, len(err.Error()), 2000)
	}
	_, err := answerOf(panickingE{}).Call(t.Context(), agent.ToolCall{})
	_, ok := errors.AsType[*spawn.PanicError](err)
	require.True(t, ok, "%v", err)
}

// Issue 12: what has no JSON form is a mistake that Open reports, and so is a Part whose bytes
// JSON would leave out.
func TestAnswersThatHaveNoJSON(t *testing.T) {
	type withPart struct{ P []agent.ToolResult }
	for want, tool := range map[string]agent.Tool{
		"chan int has no JSON form":           answerOf(make(chan int)),
		"field C: chan int has no JSON form":  answerOf(channelArgs{}),
		"func() has no JSON form":             answerOf([]func(){nil}),
		"complex128 has no JSON form":         answerOf(map[string]complex128{}),
		"the keys of an object are strings":   answerOf(map[bool]int{}),
		"JSON leaves out the bytes of a Part": answerOf([]agent.Part{}),
		"field P: field Parts: JSON leaves":   answerOf(withPart{}),
		"return a ToolResult":                 answerOf(&agent.ToolResult{}),
	} {
		requireMistake(t, "Config.Tools[0].Call: tool \"t\": what it returns: ", tool)
		requireMistake(t, want, tool)
		_, err := tool.Call(t.Context(), agent.ToolCall{})
		require.ErrorContains(t, err, want)
	}
	requireNoMistake(t, answerOf(listValue{}))
}

// modelParts is a model that calls a tool and then keeps what it is shown of its answer.
type modelParts struct {
	mu   sync.Mutex
	seen agent.Message
	data []string
	errs []error
}

func (p *modelParts) Generate(
	ctx context.Context, req *agent.ModelRequest,
) (*agent.ModelResponse, error) {
	m := lastMessage(req)
	if m.Role == session.MessageUser {
		return &agent.ModelResponse{ToolCalls: []agent.ToolCall{{ID: "1", Name: "look"}}}, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen, p.data, p.errs = m, nil, nil
	for _, part := range m.Parts {
		if part.URL == "" {
			data, err := readAll(req.OpenFile(ctx, part.File))
			p.data, p.errs = append(p.data, data), append(p.errs, err)
		}
	}
	return &agent.ModelResponse{Text: "done"}, nil
}

// readAll reads a file to its end.
func readAll(in io.ReadCloser, err error) (string, error) {
	if err != nil {
		return "", err
	}
	data, err := io.ReadAll(in)
	return string(data), errors.Join(err, in.Close())
}

// lookWith has a model call a tool that answers with parts. It returns what the model was shown,
// and the log.
func lookWith(
	t *testing.T, cfg agent.Config, parts ...agent.Part,
) (seen *modelParts, log string) {
	t.Helper()
	seen = &modelParts{}
	var buf bytes.Buffer
	cfg.Tools, cfg.Runner = []agent.Tool{partsTool(parts...)}, &agent.Loop{Model: seen}
	cfg.Logger = slog.New(slog.NewTextHandler(&buf, nil))
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.Post("look")
		time.Sleep(time.Minute)
		h.Replied("done")
	})
	return seen, buf.String()
}

// Issue 12: the parts of a tool's answer are in the conversation, their bytes in files of the
// session, and a model can read them.
func TestPartsOfATool(t *testing.T) {
	inStores(t, func(t *testing.T, open func() *session.Store) {
		long := picture("b.png", 100_000)
		link := agent.Part{Kind: agent.PartFile, URL: "https://example.com/a.pdf"}
		seen := &modelParts{}
		runTurns(t, agent.Config{
			Store: open(), Tools: []agent.Tool{partsTool(picture("a.png", 9), link, long)},
			Runner: &agent.Loop{Model: seen},
		}, "look")
		check := func(m agent.Message) {
			require.Equal(t, []any{"seen", false}, []any{m.Text, m.Failed})
			require.Len(t, m.Parts, 3)
			require.Equal(t, link, m.Parts[1])
			require.NoError(t, session.ValidateParts(m.Parts, agent.Part.Validate))
			require.Equal(t, "a.png", m.Parts[0].Name)
		}
		check(seen.seen)
		require.Equal(t, []error{nil, nil}, seen.errs)
		require.Equal(t, []string{string(picture("", 9).Data), string(long.Data)}, seen.data)

		cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
			check(tn.Messages[2])
			data, err := readAll(tn.OpenFile(ctx, tn.Messages[2].Parts[2].File))
			require.Equal(t, string(long.Data), data)
			return agent.Result{}, err
		})
		cfg.Store = open()
		runTurns(t, cfg, "and after a restart?")
	})
}

// Issue 12: what people send has its real type, too, and a bot opens the files of a session that is
// not in a turn.
func TestFilesOfASession(t *testing.T) {
	p := picture("a.png", 9)
	p.MediaType = "image/jpeg"
	long := strings.Repeat("long", 75_000)
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		return agent.Result{}, tn.Record(ctx, agent.Message{Role: session.MessageUser, Text: long})
	})
	agenttest.Run(t, cfg, nil, func(h *harness) {
		require.NoError(t, h.Main().Post(h.Context(), agent.Incoming{Parts: []agent.Part{p}}))
		synctest.Wait()
		page, err := h.Main().History(h.Context(), agent.HistoryQuery{Raw: true})
		require.NoError(t, err)
		sent := page.Lines[0].Message.Parts[0]
		require.Equal(t, "image/png", sent.MediaType)
		data, err := readAll(h.Main().OpenFile(h.Context(), sent.File))
		require.NoError(t, err)
		require.Equal(t, string(p.Data), data)
		require.Equal(t, long, page.Lines[1].Message.Text, "the whole, not the line")
		_, err = h.Main().OpenFile(h.Context(), session.File{Hash: strings.Repeat("0", 64)})
		require.ErrorIs(t, err, session.ErrNotFound)
		unknown := session.Must(topKey.Child("main", session.NewID()))
		_, err = h.Session(unknown).OpenFile(h.Context(), sent.File)
		require.ErrorIs(t, err, session.ErrNotFound)
	})
}

// Issue 12: wherever the process dies, the next turn has the parts and the whole of long messages.
// The harness checks that no line names bytes that are not there.
func TestPartsSurviveEveryCrash(t *testing.T) {
	text := strings.Repeat("long", 75_000)
	cfg := agent.Config{Store: session.NewMemory(), Tools: []agent.Tool{
		agent.NewTool("look", "", func(context.Context, struct{}) (agent.ToolResult, error) {
			return agent.ToolResult{Text: text, Parts: []agent.Part{picture("a.png", 9)}}, nil
		}),
	}}
	s := script{"main": {
		call("look", `{}`), say(text).With(picture("made.png", 20)), echo(),
	}}
	agenttest.EveryCrash(t, cfg, s, func(h *harness) {
		h.Post("look")
		h.Replied(text)
		h.Post("and?")
		h.Replied(text, "and?")
		last := h.Requests("main")
		messages := last[len(last)-1].Messages
		tool, answer := messages[len(messages)-3], messages[len(messages)-2]
		require.Equal(h.T(), []string{text, text}, []string{tool.Text, answer.Text})
		require.Len(h.T(), tool.Parts, 1)
		require.Equal(h.T(), "made.png", answer.Parts[0].Name)
	})
}

// Bad input: what cannot be kept of a tool's answer is left out, the model and the log are told
// which and why, the rest is there, and the call has not failed.
func TestPartsThatAreLeftOut(t *testing.T) {
	many := make([]agent.Part, 10_000)
	for i := range many {
		many[i] = agent.Part{Kind: agent.PartFile, Data: []byte(fmt.Sprint(i))}
	}
	bad := func(change func(*agent.Part)) []agent.Part {
		p := picture("a.png", 9)
		change(&p)
		return []agent.Part{picture("first.png", 9), p, picture("last.png", 9)}
	}
	for name, c := range map[string]struct {
		store  *session.Store
		limits agent.Limits
		parts  []agent.Part
		kept   int
		note   string
	}{
		"no files": {
			withoutFiles(),
			agent.Limits{},
			bad(func(p *agent.Part) {
				p.Data, p.URL = nil, "https://example.com/a.png"
			}), 1,
			"Of 3 attachments, 2 were left out: 1 (attachments cannot be kept here); 3 (",
		},
		"without bytes": {
			nil,
			agent.Limits{},
			bad(func(p *agent.Part) { p.Data = nil }), 2,
			"Of 3 attachments, 1 was left out: 2 (File: it has neither bytes nor a URL).",
		},
		"a path": {
			nil,
			agent.Limits{},
			bad(func(p *agent.Part) { p.Name = "../../etc/passwd" }), 2,
			`1 was left out: 2 (Name: "../../etc/passwd" is not the name of a file`,
		},
		"bytes and a URL": {
			nil,
			agent.Limits{},
			bad(func(p *agent.Part) { p.URL = "https://example.com" }), 2,
			"2 (URL: it has bytes, too)",
		},
		"a kind of several lines": {
			nil, agent.Limits{}, bad(func(p *agent.Part) { p.Kind = "a\nb" }), 2, "2 (Kind: ",
		},
		"a type that is not one": {
			nil, agent.Limits{}, bad(func(p *agent.Part) { p.MediaType = "png" }), 2, "2 (MediaType: ",
		},
		"too large": {
			nil,
			agent.Limits{Part: 100},
			bad(func(p *agent.Part) { *p = picture("", 101) }), 2,
			"2 (it has 101 bytes, the limit is 100 (Limits.Part))",
		},
		"10,000 parts": {
			nil,
			agent.Limits{},
			many, 64,
			"Of 10000 attachments, 9936 were left out: the last 9936 (at most 64 are kept).",
		},
		"10,000 bad parts": {
			nil, agent.Limits{}, make([]agent.Part, 10_000), 0, "and 9980 more.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			seen, log := lookWith(t, agent.Config{Store: c.store, Limits: c.limits}, c.parts...)
			require.Len(t, seen.seen.Parts, c.kept)
			require.False(t, seen.seen.Failed)
			require.True(t, strings.HasPrefix(seen.seen.Text, "seen\n[Offshoot] "), seen.seen.Text)
			require.Contains(t, seen.seen.Text, c.note)
			require.Less(t, len(seen.seen.Text), 10_000)
			require.Contains(t, log, "offshoot: parts of a message were left out")
		})
	}
}

// Bad input: a media type that lies is set right, and one that is missing is found. What the bytes
// leave open stays as the sender has it.
func TestRealTypesOfParts(t *testing.T) {
	const (
		image, audio = agent.PartImage, agent.PartAudio
		video, file  = agent.PartVideo, agent.PartFile
	)
	for _, c := range []struct {
		kind     agent.PartKind
		claimed  string
		data     string
		wantKind agent.PartKind
		want     string
	}{
		{image, "image/png", pngBytes, image, "image/png"},
		{image, "", pngBytes, image, "image/png"},
		{image, "application/octet-stream", pngBytes, image, "image/png"},
		{image, "image/jpeg", pngBytes, image, "image/png"},
		{image, "image/jpg", jpegBytes, image, "image/jpeg"},
		{image, "IMAGE/PNG; x=y", pngBytes, image, "IMAGE/PNG; x=y"},
		{file, "text/html", pngBytes, file, "image/png"},
		{audio, "audio/mpeg", pngBytes, image, "image/png"},
		{image, "image/png", pdfBytes, file, "application/pdf"},
		{image, "", pdfBytes, file, "application/pdf"},
		{image, "image/png", "<html><script>alert(1)</script>", file, "text/html; charset=utf-8"},
		{image, "image/png", "plain text", file, "text/plain; charset=utf-8"},
		{image, "image/webp", "\x00\x01\x02", file, "application/octet-stream"},
		{image, "image/heic", "\x00\x01\x02", image, "image/heic"},
		{image, "", "\x00\x01\x02", image, ""},
		{image, "image/heic", zipBytes, file, "application/zip"},
		{image, "image/svg+xml", `<?xml version="1.0"?><svg/>`, image, "image/svg+xml"},
		{image, "image/svg+xml", "<svg/>", image, "image/svg+xml"},
		{image, "image/svg+xml", pngBytes, image, "image/png"},
		{
			file, "application/vnd.oasis.opendocument.text", zipBytes, file,
			"application/vnd.oasis.opendocument.text",
		},
		{file, "application/json", `{"a":1}`, file, "application/json"},
		{file, "text/markdown", "# title", file, "text/markdown"},
		{file, "text/plain", "BMW is a car", file, "text/plain"},
		{audio, "audio/ogg", oggBytes, audio, "audio/ogg"},
		{audio, "", oggBytes, audio, "application/ogg"},
		{audio, "audio/mp4", mp4Bytes, audio, "audio/mp4"},
		{video, "image/png", mp4Bytes, video, "video/mp4"},
		{image, "image/png", mp4Bytes, video, "video/mp4"},
		{audio, "audio/mpeg", "ID3", audio, "audio/mpeg"},
		{"sticker", "", pngBytes, "sticker", "image/png"},
	} {
		p := agent.Part{Kind: c.kind, MediaType: c.claimed, Data: []byte(c.data)}
		seen, _ := lookWith(t, agent.Config{}, p)
		got := seen.seen.Parts[0]
		require.Equal(t, []any{c.wantKind, c.want}, []any{got.Kind, got.MediaType}, "%+v", c)
		require.Equal(t, c.data, seen.data[0])
	}
}

// Issue 12: a Runner records parts in every role, with bytes, a file or a URL. What is not one is
// a typed error, and nothing is recorded.
func TestRecordOfParts(t *testing.T) {
	link := agent.Part{Kind: agent.PartFile, URL: "https://example.com/a.pdf"}
	record := func(t *testing.T, store *session.Store, parts ...agent.Part) (lines int, err error) {
		t.Helper()
		cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
			if tn.N == 1 {
				err = tn.Record(ctx, agent.Message{Role: session.MessageUser, Parts: parts})
			}
			lines = len(tn.Messages) - tn.New
			return textResult("x")
		})
		cfg.Store = store
		agenttest.Run(t, cfg, nil, func(h *harness) { postEach(h, "record", "and?") })
		return lines, err
	}
	inStores(t, func(t *testing.T, open func() *session.Store) {
		cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
			in := strings.NewReader(pdfBytes)
			kept, err := tn.PutFile(ctx, in, agent.Part{Kind: agent.PartFile})
			for _, m := range []agent.Message{
				{Role: session.MessageUser, Text: "u"},
				{
					Role: session.MessageAssistant, Text: "a",
					ToolCalls: []agent.ToolCall{{ID: "1", Name: "x"}},
				},
				{Role: session.MessageTool, ToolCallID: "1"},
				{Role: session.MessageAssistant},
			} {
				liar := picture("a.png", 9)
				liar.MediaType = "image/jpeg"
				m.Parts = []agent.Part{liar, kept, link}
				err = errors.Join(err, tn.Record(ctx, m))
			}
			require.NoError(t, err)
			return agent.Result{}, err
		})
		cfg.Store = open()
		runTurns(t, cfg, "record")
		read := 0
		cfg = configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
			for _, m := range tn.Messages[1:5] {
				require.Len(t, m.Parts, 3, m.Role)
				require.Equal(t, "image/png", m.Parts[0].MediaType)
				data, err := readAll(tn.OpenFile(ctx, m.Parts[1].File))
				require.NoError(t, err)
				require.Equal(t, pdfBytes, data)
				require.Equal(t, "application/pdf", m.Parts[1].MediaType)
				read++
			}
			return agent.Result{}, nil
		})
		cfg.Store = open()
		runTurns(t, cfg, "read")
		require.Equal(t, 4, read)
	})
	for name, c := range map[string]struct {
		parts []agent.Part
		want  string
		is    error
	}{
		"a name with a path": {
			[]agent.Part{link, picture("a/b.png", 9)}, "Parts[1].Name", session.ErrInvalidPart,
		},
		"no bytes": {[]agent.Part{{Kind: agent.PartFile}}, "Parts[0].File", session.ErrInvalidPart},
		"many":     {make([]agent.Part, 65), "it has 65 parts, the limit is 64 (Limits.Parts)", nil},
		"large": {
			[]agent.Part{link, picture("a.png", 32<<20+1)},
			"Message.Parts[1].Data: it has 33554433 bytes, the limit is 33554432 (Limits.Part)", nil,
		},
	} {
		lines, err := record(t, session.NewMemory(), c.parts...)
		require.ErrorContains(t, err, c.want, name)
		require.True(t, c.is == nil || errors.Is(err, c.is), name)
		require.Equal(t, 2, lines, name)
	}
	lines, err := record(t, withoutFiles(), picture("a.png", 9))
	require.ErrorIs(t, err, session.ErrNoFiles)
	require.Equal(t, 2, lines)
	lines, err = record(t, withoutFiles(), link)
	require.NoError(t, err)
	require.Equal(t, 3, lines)
}

// Bad input: a file that is cut off, too large, empty, without a source or a valid part is a typed
// error of PutFile, and leaves nothing.
func TestPutFileThatFails(t *testing.T) {
	ok := agent.Part{Kind: agent.PartFile}
	endless := io.MultiReader(strings.NewReader(pdfBytes), zeros{})
	broken := errors.New("the connection broke")
	cutOff := io.MultiReader(strings.NewReader(pngBytes), iotest.ErrReader(broken))
	text, bad := strings.NewReader("x"), session.ErrInvalidPart
	for name, c := range map[string]struct {
		r    io.Reader
		part agent.Part
		want error
		says string
	}{
		"endless":      {endless, ok, nil, "(Limits.Part)"},
		"cut off":      {cutOff, ok, broken, ""},
		"fails":        {iotest.ErrReader(broken), ok, broken, ""},
		"empty":        {strings.NewReader(""), ok, bad, "it has no bytes"},
		"no reader":    {nil, ok, nil, "r: it is missing"},
		"with Data":    {text, picture("a.png", 9), bad, "Data"},
		"with a URL":   {text, agent.Part{Kind: "file", URL: "https://a.b"}, bad, "URL"},
		"with a path":  {text, agent.Part{Kind: "file", Name: "a/b"}, bad, "Name"},
		"without kind": {text, agent.Part{}, bad, "Kind"},
	} {
		store, files := watchedFiles()
		err := putFile(t, store, c.r, c.part)
		require.ErrorContains(t, err, c.says, name)
		require.True(t, c.want == nil || errors.Is(err, c.want), "%s: %v", name, err)
		require.Empty(t, files.kept(t), name)
	}
	require.ErrorIs(t, putFile(t, withoutFiles(), text, ok), session.ErrNoFiles)
}

// putFile returns the error of a PutFile, which returns the Part as it was.
func putFile(t *testing.T, store *session.Store, r io.Reader, p agent.Part) error {
	t.Helper()
	put := func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		got, err := tn.PutFile(ctx, r, p)
		require.Equal(t, p, got)
		return agent.Result{}, err
	}
	return feedRunner(t, store, put)
}

// zeros is a reader without an end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// fileWatch is the files of a store, which can fail.
type fileWatch struct {
	session.Files
	mu    sync.Mutex
	refs  map[session.Ref]bool
	fails int // how many calls of Put fail before one does not
}

func watchedFiles() (*session.Store, *fileWatch) {
	store := session.NewMemory()
	files := &fileWatch{Files: store.Files, refs: make(map[session.Ref]bool)}
	store.Files = files
	return store, files
}

func (w *fileWatch) Put(
	ctx context.Context, ref session.Ref, r io.Reader, want session.File,
) (session.File, error) {
	w.mu.Lock()
	w.refs[ref] = true
	fails := w.fails > 0
	w.fails--
	w.mu.Unlock()
	if fails {
		_, _ = io.CopyN(io.Discard, r, 3)
		return session.File{}, errors.New("no space left on device")
	}
	return w.Files.Put(ctx, ref, r, want)
}

// kept returns the files that are kept.
func (w *fileWatch) kept(t *testing.T) (all []session.File) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for ref := range w.refs {
		for f, err := range w.List(t.Context(), ref) {
			require.NoError(t, err)
			all = append(all, f)
		}
	}
	return all
}

// Bad input: a disk that is full for a while costs time, and nothing else.
func TestFullDiskForFiles(t *testing.T) {
	store, files := watchedFiles()
	files.fails = 3
	seen, _ := lookWith(t, agent.Config{Store: store}, picture("a.png", 9))
	require.Equal(t, "seen", seen.seen.Text)
	require.Equal(t, []string{string(picture("", 9).Data)}, seen.data)
	require.Len(t, files.kept(t), 1)
}

// Only files of the session's own transcript are found, and one that is gone is a typed error.
func TestOpenFileOfATurn(t *testing.T) {
	var other session.File
	open := func(ctx context.Context, tn *agent.Turn, f session.File) error {
		_, err := readAll(tn.OpenFile(ctx, f))
		return err
	}
	key := session.Must(session.DirectKey("main", "chat", "7"))
	cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		if tn.Session.Key == key {
			in := strings.NewReader("secret")
			p, err := tn.PutFile(ctx, in, agent.Part{Kind: agent.PartFile})
			other = p.File
			require.NoError(t, open(ctx, tn, other))
			return agent.Result{Text: "x"}, err
		}
		require.ErrorIs(t, open(ctx, tn, other), session.ErrNotFound)
		require.ErrorIs(t, open(ctx, tn, session.File{}), session.ErrNotFound)
		require.ErrorIs(t, open(ctx, tn, session.File{Hash: "../x"}), session.ErrInvalidKey)
		return agent.Result{Text: "x"}, nil
	})
	agenttest.Run(t, cfg, nil, func(h *harness) {
		h.PostTo(key, "go")
		synctest.Wait()
		h.Post("go")
		synctest.Wait()
		require.Len(t, h.Replies(), 2)
	})
	err := feedRunner(t, withoutFiles(), func(
		ctx context.Context, tn *agent.Turn,
	) (agent.Result, error) {
		return agent.Result{}, open(ctx, tn, other)
	})
	require.ErrorIs(t, err, session.ErrNoFiles)
	_, err = new(agent.ModelRequest).OpenFile(t.Context(), other)
	require.ErrorIs(t, err, session.ErrNoFiles)
}

// filesThatAreNot returns names that no file of a session with the file kept has.
func filesThatAreNot(kept session.File) map[string]session.File {
	return map[string]session.File{
		"any hash":  {Hash: strings.Repeat("0af9", 16), Size: 5},
		"less":      {Hash: kept.Hash, Size: kept.Size - 1},
		"more":      {Hash: kept.Hash, Size: kept.Size + 1},
		"no size":   {Hash: kept.Hash},
		"very much": {Hash: kept.Hash, Size: math.MaxInt64},
	}
}

// Bad input: a Part whose File the session does not have, or not with that size, is refused
// wherever one is handed over: a Runner would fail at it in each later turn.
func TestFilesThatTheSessionDoesNotHave(t *testing.T) {
	inStores(t, func(t *testing.T, open func() *session.Store) {
		var names map[string]session.File
		cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
			in := strings.NewReader(pdfBytes)
			kept, err := tn.PutFile(ctx, in, agent.Part{Kind: agent.PartFile})
			require.NoError(t, err)
			names = filesThatAreNot(kept.File)
			for name, f := range names {
				err := tn.Record(ctx, agent.Message{
					Role: session.MessageUser, Text: "bad",
					Parts: []agent.Part{kept, {Kind: agent.PartFile, File: f}},
				})
				bad, ok := errors.AsType[*session.PartError](err)
				require.True(t, ok, "%s: %v", name, err)
				require.Equal(t, []any{1, "File"}, []any{bad.Index, bad.Field}, name)
			}
			return agent.Result{}, tn.Record(ctx, agent.Message{
				Role: session.MessageUser, Parts: []agent.Part{kept},
			})
		})
		cfg.Store = open()
		runTurns(t, cfg, "record")

		parts := []agent.Part{picture("a.png", 9)}
		for _, f := range names {
			parts = append(parts, agent.Part{Kind: agent.PartFile, File: f})
		}
		seen := &modelParts{}
		runTurns(t, agent.Config{
			Store: open(), Tools: []agent.Tool{partsTool(parts...)},
			Runner: &agent.Loop{Model: seen},
		}, "look")
		require.Equal(t, []error{nil}, seen.errs)
		require.Contains(t, seen.seen.Text, "Of 6 attachments, 5 were left out: 2 (File: ")
		require.Contains(t, seen.seen.Text, "(File: the transcript of the session has no such file)")
		runTurns(t, agent.Config{Store: open(), Runner: &agent.Loop{Model: modelFunc(func(
			context.Context, *agent.ModelRequest,
		) (*agent.ModelResponse, error) {
			return &agent.ModelResponse{Text: "made", Parts: parts}, nil
		})}}, "make")

		read := 0
		cfg = configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
			for _, m := range tn.Messages {
				require.NotEqual(t, "bad", m.Text)
				for _, p := range m.Parts {
					_, err := readAll(tn.OpenFile(ctx, p.File))
					require.NoError(t, err)
					read++
				}
			}
			return agent.Result{}, nil
		})
		cfg.Store = open()
		runTurns(t, cfg, "read")
		require.Equal(t, 3, read)
	})
	link := agent.Part{Kind: agent.PartFile, File: session.File{Hash: strings.Repeat("0af9", 16)}}
	err := feedRunner(t, withoutFiles(), func(
		ctx context.Context, tn *agent.Turn,
	) (agent.Result, error) {
		m := agent.Message{Role: session.MessageUser, Parts: []agent.Part{link}}
		return agent.Result{}, tn.Record(ctx, m)
	})
	require.ErrorIs(t, err, session.ErrNoFiles)
}

// Bad input: a file that is not as long as its name says is an error, however it is read. One that
// has grown is not read to its end.
func TestFilesOfAnotherSize(t *testing.T) {
	inDirectory(t, func(t *testing.T, dir string, open func() *session.Store) {
		content := strings.Repeat("x", 10_000)
		cfg := configWith(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
			in := strings.NewReader(content)
			kept, err := tn.PutFile(ctx, in, agent.Part{Kind: agent.PartFile})
			require.NoError(t, err)
			data, err := readAll(tn.OpenFile(ctx, kept.File))
			require.NoError(t, err)
			require.Equal(t, content, data)
			for name, f := range filesThatAreNot(kept.File) {
				if name != "any hash" {
					requireCorrupt(t, f, func() (io.ReadCloser, error) {
						return tn.OpenFile(ctx, f)
					})
				}
			}
			for _, size := range []int64{1 << 40, 10_001, 9_999, 0} {
				require.NoError(t, os.Truncate(fileNamed(t, dir, kept.File.Hash), size))
				requireCorrupt(t, kept.File, func() (io.ReadCloser, error) {
					return tn.OpenFile(ctx, kept.File)
				})
			}
			return agent.Result{}, nil
		})
		cfg.Store = open()
		runTurns(t, cfg, "go")
	})
}

// requireCorrupt fails unless each way to read a file ends with session.ErrCorrupt, without its
// last byte.
func requireCorrupt(t *testing.T, f session.File, open func() (io.ReadCloser, error)) {
	t.Helper()
	for name, read := range map[string]func(io.Reader) (int64, error){
		"to the end": func(in io.Reader) (int64, error) {
			return io.Copy(io.Discard, io.LimitReader(in, 1<<20))
		},
		"a byte at a time": func(in io.Reader) (int64, error) {
			return io.Copy(io.Discard, io.LimitReader(iotest.OneByteReader(in), 1<<20))
		},
		"its size": func(in io.Reader) (int64, error) {
			n, err := io.ReadFull(in, make([]byte, min(f.Size, 1<<20)))
			if f.Size == 0 {
				_, err = in.Read(make([]byte, 1))
			}
			return int64(n), err
		},
	} {
		in, err := open()
		var n int64
		if err == nil {
			n, err = read(in)
			_, again := in.Read(make([]byte, 1))
			require.Equal(t, err, again, "the error stays")
			require.NoError(t, in.Close())
		}
		require.ErrorIs(t, err, session.ErrCorrupt, "%s of %+v", name, f)
		require.Less(t, n, max(f.Size, 1), name)
	}
}

// fileNamed returns the path of a file below a directory.
func fileNamed(t *testing.T, dir, name string) (found string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && strings.Contains(e.Name(), name) {
			found = path
		}
		return err
	}))
	require.NotEmpty(t, found)
	return found
}
