package agent_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/session"
)

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
		require.NoError(
			t, errorOf(h.Main().Post(h.Context(), agent.Incoming{Parts: []agent.Part{p}})),
		)
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
