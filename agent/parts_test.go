package agent_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
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
	"github.com/offshoot-sdk/offshoot/session/dirstore"
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
		require.NoError(
			t, errorOf(rt.Session(topKey).Post(t.Context(), agent.Incoming{Text: text})),
		)
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
