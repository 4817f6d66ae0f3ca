package agent_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/agent/agenttest"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// filesBot answers with the files of each turn: those of Turn.Files, and those below Turn.Dir.
type filesBot struct {
	mu      sync.Mutex
	prompts []string
	last    fs.FS // of the last turn
}

func (b *filesBot) Run(_ context.Context, tn *agent.Turn) (agent.Result, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.prompts, b.last = append(b.prompts, tn.Prompt.String()), tn.Files
	said := listFiles(tn.Files)
	if tn.Dir != "" {
		said += " | " + listFiles(os.DirFS(tn.Dir))
	}
	return textResult(said)
}

// listFiles returns the files of a directory and below, with what is in them.
func listFiles(files fs.FS) string {
	var said []string
	err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, path)
		if d.Name() == ".manifest.json" {
			data = []byte("list")
		}
		said = append(said, filepath.Base(path)+"="+string(data))
		return err
	})
	if err != nil {
		return err.Error()
	}
	return strings.Join(said, ",")
}

// attaching returns attachments by name and content.
func attaching(files ...string) (list []agent.Attachment) {
	for i := 0; i < len(files); i += 2 {
		list = append(list, agent.Attachment{
			Name: files[i], Reader: strings.NewReader(files[i+1]),
		})
	}
	return list
}

// attachConfig is that of a bot whose models may attach files.
func attachConfig(base string) agent.Config {
	cfg := agent.Config{
		Runner: &filesBot{}, Rules: policy.Rules{Attachments: policy.Attachments{Enabled: true}},
	}
	if base != "" {
		cfg.WorkDir = func(string) string { return base }
	}
	return cfg
}

// sha returns the digest of a text.
func sha(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// What a program attaches is in the files of each turn of the sub-agent, and no other. A Reader may
// give its bytes in any portions.
func TestAttachmentsFromGo(t *testing.T) {
	bot := &filesBot{}
	cfg := attachConfig("")
	cfg.Runner, cfg.Rules.Attachments.Enabled = bot, false
	big := strings.Repeat("x", 200_000)
	agenttest.Run(t, cfg, nil, func(h *harness) {
		for name, in := range map[string]io.Reader{
			"whole": strings.NewReader(big), "bytes": iotest.OneByteReader(strings.NewReader(big[:9])),
			"end with data": iotest.DataErrReader(strings.NewReader(big)),
			"empty":         strings.NewReader(""),
		} {
			child, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{
				Text: name, AttachAs: "/in/" + "data", Attachments: []agent.Attachment{
					{Name: " a.txt ", MediaType: "text/plain", Reader: in},
					{Name: "b", Reader: strings.NewReader("two")},
				},
			})
			require.NoError(t, err, name)
			got, err := child.Wait(h.Context())
			require.NoError(t, err, name)
			require.True(t, strings.HasPrefix(got, "a.txt="), name)
			require.True(t, strings.HasSuffix(got, ",b=two"), name)
			require.Contains(t, bot.prompts[len(bot.prompts)-1], "/in/data")
			require.Contains(t, bot.prompts[len(bot.prompts)-1], "untrusted")
			require.Contains(t, bot.prompts[len(bot.prompts)-1], `- "b", 3 bytes`)
			_, err = fs.ReadFile(bot.last, "b")
			require.ErrorIs(t, err, agent.ErrStale, "the files end with the turn")
			again, err := child.Post(h.Context(), agent.Incoming{Text: "and now?"})
			require.NoError(t, err)
			later, err := again.Wait(h.Context())
			require.NoError(t, err)
			require.Equal(t, got, later, "a later run has them, too")
		}
		child, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{Text: "none"})
		require.NoError(t, err)
		got, err := child.Wait(h.Context())
		require.NoError(t, err)
		require.Empty(t, got)
		require.NotContains(t, bot.prompts[len(bot.prompts)-1], "## Attachments")
	})
}

// The files of a turn are a file system like any other.
func TestFilesOfATurn(t *testing.T) {
	var mu sync.Mutex
	var tested error
	cfg := attachConfig("")
	cfg.Runner = agent.RunnerFunc(func(_ context.Context, tn *agent.Turn) (agent.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		tested = fstest.TestFS(tn.Files, "a", "b.txt", "empty")
		return textResult("done")
	})
	agenttest.Run(t, cfg, nil, func(h *harness) {
		child, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{
			Text: "x", Attachments: attaching("b.txt", "bbb", "a", "aa", "empty", ""),
		})
		require.NoError(t, err)
		_, err = child.Wait(h.Context())
		require.NoError(t, err)
		require.NoError(t, tested)
	})
}

// The files end with the turn: nothing of them can be read after it, by no way and by no handle.
func TestFilesEndWithTheTurn(t *testing.T) {
	var files fs.FS
	var file fs.File
	var dir fs.ReadDirFile
	cfg := attachConfig("")
	cfg.Runner = agent.RunnerFunc(func(_ context.Context, tn *agent.Turn) (agent.Result, error) {
		files = tn.Files
		at, err := files.Open(".")
		if err == nil {
			dir = at.(fs.ReadDirFile)
			file, err = files.Open("a")
		}
		return agent.Result{Text: "done"}, err
	})
	agenttest.Run(t, cfg, nil, func(h *harness) {
		child, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{
			Text: "x", Attachments: attaching("a", "aa"),
		})
		require.NoError(t, err)
		_, err = child.Wait(h.Context())
		require.NoError(t, err)
		for name, use := range map[string]func() error{
			"Open .":              func() error { return errorOf(files.Open(".")) },
			"Open":                func() error { return errorOf(files.Open("a")) },
			"Open of none":        func() error { return errorOf(files.Open("none")) },
			"Stat .":              func() error { return errorOf(fs.Stat(files, ".")) },
			"Stat":                func() error { return errorOf(fs.Stat(files, "a")) },
			"ReadDir":             func() error { return errorOf(fs.ReadDir(files, ".")) },
			"ReadFile":            func() error { return errorOf(fs.ReadFile(files, "a")) },
			"ReadDir of a file":   func() error { return errorOf(fs.ReadDir(files, "a")) },
			"Read of a handle":    func() error { return errorOf(file.Read(make([]byte, 1))) },
			"ReadDir of a handle": func() error { return errorOf(dir.ReadDir(-1)) },
		} {
			require.ErrorIs(t, use(), agent.ErrStale, name)
		}
		require.NoError(t, file.Close())
		require.NoError(t, dir.Close())
	})
}

// A Reader that fails, hangs, panics, ends its goroutine, lies or never gets on refuses the spawn.
// So does one that gives too much. Nothing is left of it.
func TestReadersThatMisbehave(t *testing.T) {
	errRead := errors.New("bad disk")
	reading := func(f func(p []byte) (int, error)) io.Reader { return readFunc(f) }
	for name, c := range map[string]struct {
		in     func(ctx context.Context) io.Reader
		reason string
	}{
		"fails": {func(context.Context) io.Reader { return iotest.ErrReader(errRead) }, "bad disk"},
		"fails late": {func(context.Context) io.Reader {
			return io.MultiReader(strings.NewReader("x"), iotest.ErrReader(errRead))
		}, "bad disk"},
		"panics": {func(context.Context) io.Reader {
			return reading(func([]byte) (int, error) { panic("oh no") })
		}, "oh no"},
		"exits": {func(context.Context) io.Reader {
			return reading(func([]byte) (int, error) { runtime.Goexit(); return 0, nil })
		}, "ended its goroutine"},
		"hangs": {func(ctx context.Context) io.Reader {
			return reading(func([]byte) (int, error) { <-ctx.Done(); return 0, nil })
		}, "deadline"},
		"lies":     {readsSo(func(p []byte) int { return len(p) + 1 }), "says"},
		"negative": {readsSo(func([]byte) int { return -1 }), "says"},
		"nothing":  {readsSo(func([]byte) int { return 0 }), "multiple Read calls"},
		"for ever": {readsSo(func(p []byte) int { return len(p) }), "maxFileBytes"},
		"missing":  {func(context.Context) io.Reader { return nil }, "missing"},
	} {
		t.Run(name, func(t *testing.T) {
			agenttest.Run(t, attachConfig(makeTree(t)), nil, func(h *harness) {
				ctx, cancel := context.WithTimeout(h.Context(), time.Second)
				defer cancel()
				_, err := agent.Spawn[string](ctx, h.Main(), agent.Task{
					Text: "x", Attachments: []agent.Attachment{{Name: "a", Reader: c.in(ctx)}},
				})
				require.ErrorContains(t, err, c.reason)
				require.Empty(t, h.Runs())
			})
		})
	}
}

// readsSo makes a Reader that says that it has read some bytes.
func readsSo(n func(p []byte) int) func(context.Context) io.Reader {
	return func(context.Context) io.Reader {
		return readFunc(func(p []byte) (int, error) { return n(p), nil })
	}
}

type readFunc func(p []byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// 1.24, 1.25 and 1.5: which files are refused, by which limit or for which reason, from Go and from
// a model. Where files come into a directory, names must be those of different files on every disk.
func TestAttachmentsThatAreRefused(t *testing.T) {
	skipUnderRace(t)
	long := strings.Repeat("x", 1<<20)
	many := make([]string, 0, 102)
	for i := range 51 {
		many = append(many, fmt.Sprint(i), "")
	}
	for name, c := range map[string]struct {
		files  []string
		reason string // with a work directory
		onDisk bool   // refused there only
	}{
		"a slash":      {[]string{"a/b", ""}, "backslash", false},
		"dots":         {[]string{"..", ""}, "directory", false},
		"the manifest": {[]string{".Manifest.json", ""}, "list of the files", false},
		"empty":        {[]string{" ", ""}, "is empty", false},
		"a line":       {[]string{"a\nb", ""}, "one line", false},
		"C1":           {[]string{"a\u0085b", ""}, "one line", false},
		"right to left": {
			[]string{"a\u202etxt.exe", ""}, "one line", false,
		},
		"twice":      {[]string{"a.txt", "1", "a.txt", "2"}, "there twice", false},
		"by case":    {[]string{"A.txt", "1", "a.txt", "2"}, "same file", true},
		"composed":   {[]string{"\u00e9", "1", "e\u0301", "2"}, "same file", true},
		"syllables":  {[]string{"\uac00", "1", "\u1100\u1161", "2"}, "same file", true},
		"a device":   {[]string{"aux.c", ""}, "device", true},
		"a port":     {[]string{"COM1", ""}, "device", true},
		"a colon":    {[]string{"a:b", ""}, "Windows", true},
		"a last dot": {[]string{"a.", ""}, "dot", true},
		"too large":  {[]string{"a", long + "x"}, "maxFileBytes", false},
		"all of them": {
			[]string{"1", long, "2", long, "3", long, "4", long, "5", long, "6", "x"},
			"maxTotalBytes", false,
		},
		"too many": {many, "maxFiles", false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, base := range []string{"", makeTree(t)} {
				cfg := attachConfig(base)
				cfg.Limits.ToolArgs = agent.NoLimit
				agenttest.Run(t, cfg, nil, func(h *harness) {
					_, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{
						Text: "x", Attachments: attaching(c.files...),
					})
					_, told := callTool(h, "sessions_spawn", "1", attachArgs(t, c.files...))
					if c.onDisk && base == "" {
						require.NoError(t, err)
						require.NoError(t, told)
						return
					}
					require.ErrorContains(t, err, c.reason)
					bad, ok := errors.AsType[*agent.InputError](err)
					require.True(t, ok)
					require.Contains(t, bad.Field, "Task.Attachments")
					require.ErrorContains(t, told, c.reason)
					arg, ok := errors.AsType[*agent.ArgumentError](told)
					require.True(t, ok)
					require.Contains(t, arg.Argument, "attachments")
					require.Empty(t, h.Runs())
				})
			}
		})
	}
}

// attachArgs returns arguments of a call with files.
func attachArgs(t testing.TB, files ...string) string {
	var list []map[string]string
	for i := 0; i < len(files); i += 2 {
		list = append(list, map[string]string{"name": files[i], "content": files[i+1]})
	}
	data, err := json.Marshal(map[string]any{"task": "x", "label": "kid", "attachments": list})
	require.NoError(t, err)
	return string(data)
}

// 1.24: how contents and hints may be given, and which are refused.
func TestFormsOfAttachments(t *testing.T) {
	file := func(members string) string { return `"attachments":[{` + members + `}]` }
	for args, want := range map[string]string{
		file(`"name":"a","content":""`):                                        "",
		file(`"name":"a","content":"","encoding":"utf8"`):                      "",
		file(`"name":"a","content":"äx"`):                                      "äx",
		file(`"name":"a","content":"eA==","encoding":"base64"`):                "x",
		file(`"name":"a","content":" e A\n= = ","encoding":"base64"`):          "x",
		file(`"name":"a","content":"x","mimeType":"text/plain"`):               "x",
		file(`"name":"a","content":"x"`) + `,"attachAs":"in/a"`:                "x",
		file(`"name":"a","content":"x"`) + `,"attachAs":{"mountPath":"/a"}`:    "x",
		file(`"name":"a","content":"x"`) + `,"attach_as":{"mount_path":"a:b"}`: "x",
		file(`"name":"a","content":"","encoding":"base64"`):                    "! empty base64",
		file(`"name":"a","content":"eA","encoding":"base64"`):                  "! not base64",
		file(`"name":"a","content":"eB==","encoding":"base64"`):                "! not base64",
		file(`"name":"a","content":"-_==","encoding":"base64"`):                "! not base64",
		file(`"name":"a","content":"eA==eA==","encoding":"base64"`):            "! not base64",
		file(`"name":"a","content":"x","encoding":"hex"`):                      "! encoding",
		file(`"name":"a"`):                                             "! content is missing",
		file(`"name":"a","content":1`):                                 "! not a string",
		file(`"name":"a","content":"x","path":"/etc"`):                 "! not known",
		file(`"name":"a","content":"x","content":"y"`):                 "! twice",
		`"attachments":{"name":"a"}`:                                   "! not a list",
		`"attachments":["a"]`:                                          "! not an object",
		`"attachAs":"a"`:                                               "! there are none",
		file(`"name":"a","content":"x"`) + `,"attachAs":"a b"`:         "! not a path",
		file(`"name":"a","content":"x"`) + `,"attachAs":"a/../b"`:      "! leads up",
		file(`"name":"a","content":"x"`) + `,"attachAs":{"mount":"a"}`: "! mountPath",
		file(`"name":"a","content":"x"`) + `,"attachAs":7`:             "! mountPath",
	} {
		agenttest.Run(t, attachConfig(""), nil, func(h *harness) {
			out, err := callTool(h, "sessions_spawn", "1", `{"task":"x","label":"kid",`+args+`}`)
			if reason, bad := strings.CutPrefix(want, "! "); bad {
				require.ErrorContains(t, err, reason, args)
				require.Empty(t, h.Runs())
				return
			}
			require.NoError(t, err, args)
			require.Equal(t, "accepted", out["status"], args)
			require.Equal(t, map[string]any{
				"count": 1.0, "totalBytes": float64(len(want)), "files": []any{map[string]any{
					"name": "a", "bytes": float64(len(want)), "sha256": sha(want),
				}},
			}, out["attachments"], args)
			h.Pass(time.Minute)
			require.Equal(t, "a="+want, h.Child("kid").Result.Text, args)
		})
	}
}

// 1.23: unless the Rules say so, models may not attach files, and are not offered it. Nothing is
// left of such a call.
func TestAttachmentsOfModelsAreDisabled(t *testing.T) {
	cfg := attachConfig("")
	cfg.Rules.Attachments.Enabled = false
	agenttest.Run(t, cfg, nil, func(h *harness) {
		spawns := findTool(t, h.Main().Tools(), "sessions_spawn")
		require.NotContains(t, string(spawns.Schema), "attachments")
		out, err := callTool(h, "sessions_spawn", "1", attachArgs(t, "a", "x"))
		require.NoError(t, err)
		require.Equal(t, "forbidden", out["status"])
		require.Equal(t, "tools.sessions_spawn.attachments.enabled", out["path"])
		require.NotContains(t, out, "childSessionKey")
		require.Empty(t, h.Runs())
		_, err = callTool(h, "sessions_spawn", "2", `{"task":"x","attachments":[],"attachAs":""}`)
		require.NoError(t, err, "none are none")
	})
}

// Wherever the process dies, the sub-agent has all its files or its turn has not begun, a repeated
// spawn is the same one, and nothing is left in the directory in the end.
func TestAttachmentsOverCrashes(t *testing.T) {
	for _, retain := range []bool{false, true} {
		t.Run(fmt.Sprint("retain ", retain), func(t *testing.T) {
			cfg := attachConfig("")
			var base string
			cfg.WorkDir = func(string) string { return base }
			cfg.Rules.Attachments.Retain = retain
			agenttest.EveryCrash(t, cfg, nil, func(h *harness) {
				base = makeTree(h.T())
				require.NoError(h.T(), h.Do(func(rt *agent.Runtime) error {
					_, err := agent.Spawn[string](h.Context(), rt.Session(topKey), agent.Task{
						Text: "x", Label: "kid", Key: "k",
						Attachments: attaching("a", "one", "b", "two"),
					})
					return err
				}))
				h.Pass(time.Minute)
				kid := h.Child("kid")
				if kid.Status == spawn.StatusOK {
					require.Equal(h.T(), "a=one,b=two | .manifest.json=list,a=one,b=two",
						kid.Result.Text)
				}
				require.NoError(h.T(), h.Do(func(rt *agent.Runtime) error {
					_, err := rt.Session(kid.Key).Post(
						h.Context(), agent.Incoming{ID: "1", Text: "go on"})
					if errors.Is(err, agent.ErrEnded) {
						return nil // it has ended before its first turn
					}
					return err
				}))
				h.Pass(time.Minute)
				h.Post("a process that takes over removes what another has left, once it has the tree")
				h.Pass(time.Minute)
				if !retain {
					require.Empty(h.T(), listFiles(os.DirFS(base)))
				}
				h.Pass(3 * time.Hour)
				require.Empty(h.T(), listFiles(os.DirFS(base)))
			})
		})
	}
}

// The same Key with other files is another task.
func TestAttachmentsOfAKey(t *testing.T) {
	agenttest.Run(t, attachConfig(""), nil, func(h *harness) {
		task := agent.Task{Text: "x", Key: "k", Attachments: attaching("a", "one")}
		first, err := agent.Spawn[string](h.Context(), h.Main(), task)
		require.NoError(t, err)
		task.Attachments = attaching("a", "one")
		second, err := agent.Spawn[string](h.Context(), h.Main(), task)
		require.NoError(t, err)
		require.Equal(t, first.ID(), second.ID())
		for _, files := range [][]string{{"a", "two"}, {"b", "one"}, {"a", "one", "b", ""}, nil} {
			task.Attachments = attaching(files...)
			_, err = agent.Spawn[string](h.Context(), h.Main(), task)
			require.ErrorIs(t, err, agent.ErrKeyConflict, files)
		}
	})
}

// 1.5: neither a transcript nor an event nor a log has the content of an attachment of a model, by
// whatever spelling of the tool. The sub-agent has it, and the form of the provider goes.
func TestContentsAreNotKept(t *testing.T) {
	const secret = "the canary sings"
	packed := base64.StdEncoding.EncodeToString([]byte(secret))
	var log bytes.Buffer
	cfg := attachConfig("")
	cfg.Runner, cfg.Logger = nil, debugLogger(&log)
	args := attachArgs(t, "a", secret)
	args = strings.Replace(args, "}]", `},{"name":"b","content":"`+packed+
		`","encoding":"base64"}]`, 1)
	agenttest.Run(t, cfg, script{
		"main": {
			call("sessions_spawn", args), call(" Sessions_Spawn ", args), say("Asked."), echo(),
		},
		"kid": {say("Done.").After(time.Minute)},
	}, func(h *harness) {
		h.Watch(topKey)
		h.Post("go")
		h.Pass(time.Hour)
		h.Replied("Asked.", "Done.")
		page, err := h.Main().History(h.Context(), agent.HistoryQuery{Raw: true})
		require.NoError(t, err)
		lines, err := json.Marshal(page)
		require.NoError(t, err)
		events, err := json.Marshal(h.Events())
		require.NoError(t, err)
		for where, said := range map[string]string{
			"transcript": string(lines), "events": string(events), "log": log.String(),
			"later": fmt.Sprint(h.Requests("main")[2].Messages),
		} {
			require.NotContains(t, said, "canary", where)
			require.NotContains(t, said, packed[:12], where)
		}
		require.Contains(t, string(lines), "not kept here: 16 bytes, sha256 "+sha(secret))
	})
}

// A model that repeats what stands in place of a content is told to give the content.
func TestMarkerIsNotAContent(t *testing.T) {
	agenttest.Run(t, attachConfig(""), nil, func(h *harness) {
		_, err := callTool(h, "sessions_spawn", "1", attachArgs(t, "a",
			"(attached; not kept here: 1 bytes, sha256 "+sha("x")+")"))
		require.ErrorContains(t, err, "give it once more")
	})
}

// Without a place for files in the Store a spawn with attachments says so, and without them works.
func TestAttachmentsWithoutFiles(t *testing.T) {
	cfg := attachConfig("")
	cfg.Store = session.NewMemory()
	cfg.Store.Files = nil
	agenttest.Run(t, cfg, nil, func(h *harness) {
		_, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{
			Text: "x", Attachments: attaching("a", "one"),
		})
		require.ErrorIs(t, err, session.ErrNoFiles)
		require.Empty(t, h.Runs())
	})
}

// What a rule refuses is not read.
func TestRefusedSpawnReadsNothing(t *testing.T) {
	cfg := attachConfig("")
	cfg.Rules.Agents = agentsAllowing([]string{}, "coder")
	agenttest.Run(t, cfg, nil, func(h *harness) {
		read := false
		_, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{
			Text: "x", Agent: "coder", Attachments: []agent.Attachment{{
				Name: "a", Reader: readFunc(func([]byte) (int, error) {
					read = true
					return 0, io.EOF
				}),
			}},
		})
		require.ErrorIs(t, err, &policy.Refusal{Rule: policy.RuleAgents})
		require.False(t, read)
	})
}

// debugLogger is a Logger that leaves nothing out.
func debugLogger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// The hook of spawns is asked once, before a Reader is read. What it refuses is not read.
func TestHookIsAskedBeforeAttachmentsAreRead(t *testing.T) {
	for _, veto := range []bool{false, true} {
		asked, read := 0, 0
		cfg := attachConfig("")
		cfg.Hooks.Spawning = func(context.Context, agent.SpawningHook) error {
			asked++
			if read > 0 || veto {
				return errors.New("no")
			}
			return nil
		}
		agenttest.Run(t, cfg, nil, func(h *harness) {
			_, err := agent.Spawn[string](h.Context(), h.Main(), agent.Task{
				Text: "x", Attachments: []agent.Attachment{{
					Name: "a", Reader: readFunc(func([]byte) (int, error) {
						read++
						return 0, io.EOF
					}),
				}},
			})
			require.Equal(t, veto, err != nil, "%v", err)
			require.Equal(t, 1, asked)
			require.Equal(t, !veto, read > 0)
		})
	}
}

// noRoomFiles takes nothing.
type noRoomFiles struct{ session.Files }

var errNoRoom = errors.New("the disk has no room")

func (noRoomFiles) Put(
	_ context.Context, _ session.Ref, r io.Reader, _ session.File,
) (f session.File, err error) {
	_, err = io.Copy(io.Discard, r)
	return f, errors.Join(err, errNoRoom)
}

// A store that fails has recorded nothing, and the caller is told that. So it is with a Reader,
// which may say of another call that it was recorded.
func TestAttachmentsThatTheStoreDoesNotTake(t *testing.T) {
	cfg := attachConfig("")
	cfg.Store = session.NewMemory()
	cfg.Store.Files = noRoomFiles{cfg.Store.Files}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		_, err := h.Main().Spawn(h.Context(), agent.Task{Text: "x", Attachments: attaching("a", "1")})
		require.ErrorIs(t, err, errNoRoom)
		require.ErrorIs(t, err, agent.ErrNotRecorded)
		require.ErrorContains(t, err, `attachment "a"`)
		_, err = h.Main().Spawn(h.Context(), agent.Task{Text: "x", Attachments: []agent.Attachment{
			{Name: "a", Reader: iotest.ErrReader(
				errors.Join(io.ErrUnexpectedEOF, agent.ErrUnconfirmed))},
		}})
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.ErrorIs(t, err, agent.ErrNotRecorded)
		require.NotErrorIs(t, err, agent.ErrUnconfirmed)
		require.Empty(t, h.Runs())
	})
}

// What is given to a sub-agent is its own: the requester keeps none of it, and it goes with the
// sub-agent, whatever becomes of the requester. Its reset takes nothing from the sub-agent.
func TestAttachmentsAreOfTheSubagent(t *testing.T) {
	cfg := attachConfig("")
	cfg.Rules.KeepArchives = time.Hour
	cfg.Deliver = func(context.Context, agent.Delivery) error { return nil }
	agenttest.Run(t, cfg, nil, func(h *harness) {
		given := func(child *agent.Child[string]) session.Ref {
			return session.Ref{Key: child.Key(), SessionID: child.Key().ID()}
		}
		child, err := h.Main().Spawn(h.Context(), agent.Task{
			Text: "x", Attachments: attaching("a", "one"),
		})
		require.NoError(t, err)
		h.Pass(time.Second)
		require.Equal(t, map[session.Ref][]session.File{
			given(child): {{Hash: sha("one"), Size: 3}},
		}, h.Files())
		require.NoError(t, h.Main().Reset(h.Context()))
		h.Pass(time.Second)
		again, err := child.Post(h.Context(), agent.Incoming{Text: "again"})
		require.NoError(t, err)
		got, err := again.Wait(h.Context())
		require.NoError(t, err)
		require.Equal(t, "a=one", got)
		for i := range 80 {
			one, err := h.Main().Spawn(h.Context(), agent.Task{
				Text:        "x",
				Attachments: attaching("a", strings.Repeat(string('a'+rune(i%26)), 4096+i)),
			})
			require.NoError(t, err)
			_, err = one.Wait(h.Context())
			require.NoError(t, err)
			require.NoError(t, h.Runtime().DeleteSession(h.Context(), one.Key()))
		}
		require.Len(t, h.Files(), 81)
		h.Pass(3 * time.Hour)
		require.Empty(t, h.Files())
	})
}

// A sub-agent that is brought back from the archive has its files. So has none that another spawns
// with its conversation: they are not part of that.
func TestAttachmentsOfARevivedSubagent(t *testing.T) {
	agenttest.Run(t, attachConfig(""), nil, func(h *harness) {
		child, err := h.Main().Spawn(h.Context(), agent.Task{
			Text: "x", Attachments: attaching("a", "one"),
		})
		require.NoError(t, err)
		_, err = child.Wait(h.Context())
		require.NoError(t, err)
		h.Pass(2 * time.Hour)
		require.Empty(t, h.Runs())
		require.NoError(t, child.Session().Revive(h.Context()))
		again, err := child.Post(h.Context(), agent.Incoming{Text: "again"})
		require.NoError(t, err)
		got, err := again.Wait(h.Context())
		require.NoError(t, err)
		require.Equal(t, "a=one", got)
	})
}

// Wherever the process dies: once the sub-agents have left, and were purged, nothing of what they
// were given is in the store. It does not matter whether a program or a model has spawned them, nor
// whether the spawn was refused, and when.
func TestNothingOfAttachmentsStaysOverCrashes(t *testing.T) {
	cfg := attachConfig("")
	cfg.Rules.KeepArchives = time.Hour
	cfg.Rules.Attachments.MaxFileBytes = 100
	cfg.Runner = agent.RunnerFunc(func(ctx context.Context, tn *agent.Turn) (agent.Result, error) {
		if tn.Run != "" {
			return textResult(listFiles(tn.Files))
		}
		if tn.Input() != "go" {
			return textResult("thanks")
		}
		for i, content := range []string{"mine", strings.Repeat("x", 101), "mine, too"} {
			args := fmt.Sprintf(
				`{"task":"x","attachments":[{"name":"a","content":%q}]}`, content)
			_, err := findAndCall(ctx, tn.Tools, args, fmt.Sprint("c", i))
			if (err != nil) != (i == 1) {
				return agent.Result{}, fmt.Errorf("call %d: %w", i, err)
			}
		}
		return textResult("asked")
	})
	failing := func(content string) []agent.Attachment {
		return []agent.Attachment{
			{Name: "a", Reader: strings.NewReader(content)},
			{Name: "b", Reader: io.MultiReader(
				strings.NewReader(content), iotest.ErrReader(io.ErrUnexpectedEOF))},
		}
	}
	agenttest.EveryCrash(t, cfg, nil, func(h *harness) {
		spawned := func(task agent.Task, refused error) {
			require.NoError(h.T(), h.Do(func(rt *agent.Runtime) error {
				again := task
				if refused == nil {
					again.Attachments = attaching("a", "one", "b", "two")
				} else {
					again.Attachments = failing("x")
				}
				_, err := rt.Session(topKey).Spawn(h.Context(), again)
				if refused != nil && errors.Is(err, refused) {
					return nil
				}
				return err
			}))
		}
		spawned(agent.Task{Text: "x"}, nil)
		spawned(agent.Task{Text: "x"}, io.ErrUnexpectedEOF)
		require.NoError(h.T(), h.Do(func(rt *agent.Runtime) error {
			_, err := rt.Session(topKey).Spawn(h.Context(), agent.Task{
				Text: "x", Attachments: []agent.Attachment{{
					Name: "a", Reader: io.LimitReader(iotest.OneByteReader(
						strings.NewReader(strings.Repeat("y", 200))), 200),
				}},
			})
			if _, over := errors.AsType[*agent.LimitError](err); over {
				return nil
			}
			return err
		}))
		h.Post("go")
		h.Pass(time.Minute)
		for _, run := range h.Runs() {
			require.NoError(h.T(), h.Do(func(rt *agent.Runtime) error {
				err := rt.DeleteSession(h.Context(), run.Key)
				if errors.Is(err, agent.ErrNotFound) {
					return nil
				}
				return err
			}))
		}
		h.Pass(4 * time.Hour)
		require.Empty(h.T(), h.Files())
	})
}

// findAndCall calls sessions_spawn.
func findAndCall(
	ctx context.Context, tools []agent.Tool, args, id string,
) (agent.ToolResult, error) {
	for _, tool := range tools {
		if tool.Name == "sessions_spawn" {
			return tool.Call(ctx,
				agent.ToolCall{ID: id, Name: tool.Name, Args: json.RawMessage(args)})
		}
	}
	return agent.ToolResult{}, errors.New("there is no sessions_spawn")
}

// attachedBefore is the journal of a library that kept what a sub-agent is given with its
// requester.
var attachedBefore = []string{
	`{"v":1,"kind":"opened","at":946684800000000000,"num":1,` +
		`"id":"19c36c74-34b0-4884-b956-3c15183a742c","text":"118c70d8-4ff6-4430-a76e-1674e2bf5af0"}`,
	`{"v":2,"kind":"admitted","at":946684800000000000,` +
		`"run":"agent:main:subagent:0af7a75b-a112-4c57-931a-84cd94d6964b","spec":{` +
		`"id":"0af7a75b-a112-4c57-931a-84cd94d6964b",` +
		`"sessionId":"0af7a75b-a112-4c57-931a-84cd94d6964b",` +
		`"key":"agent:main:subagent:0af7a75b-a112-4c57-931a-84cd94d6964b",` +
		`"parent":"agent:main:main","spawnKey":"k","digest":"33292eadf1f1ef9eeea14cfa5332feee",` +
		`"task":"x","extra":"eyJhdHRhY2hlZCI6eyJzZXNzaW9uIjoiMTljMzZjNzQtMzRiMC00ODg0LWI5NTYtM2M` +
		`xNTE4M2E3NDJjIiwiZmlsZXMiOlt7Im5hbWUiOiJhIiwiaGFzaCI6Ijc2OTJjM2FkMzU0MGJiODAzYzAyMGIzYW` +
		`VlNjZjZDg4ODcxMjMyMzRlYTBjNmU3MTQzYzBhZGQ3M2ZmNDMxZWQiLCJzaXplIjozfV19fQ==",` +
		`"created":946684800000000000,"agent":"main","role":"leaf","depth":1,"maxDepth":1}}`,
}

// A journal that has the attachments of a sub-agent with its requester means what it meant: the
// sub-agent has them, the same spawn is the same run, and what the requester has goes when it is
// reset and purged.
func TestAttachmentsOfAnEarlierLibrary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := attachConfig("")
		cfg.Rules.KeepArchives = time.Hour
		cfg.Deliver = func(context.Context, agent.Delivery) error { return nil }
		cfg.Store = session.NewMemory()
		var entries []session.Entry
		for _, line := range attachedBefore {
			entries = append(entries, session.Entry{Payload: session.Raw(line)})
		}
		_, err := cfg.Store.Journal.Append(t.Context(), topKey, 0, session.Batch{
			ID: "1", Entries: entries, Due: time.Unix(1, 0),
			Members: []session.Key{session.Must(session.Parse(
				"agent:main:subagent:0af7a75b-a112-4c57-931a-84cd94d6964b"))},
		})
		require.NoError(t, err)
		was := session.Ref{Key: topKey, SessionID: "19c36c74-34b0-4884-b956-3c15183a742c"}
		_, err = cfg.Store.Files.Put(t.Context(), was, strings.NewReader("one"), session.File{})
		require.NoError(t, err)
		count := func(ref session.Ref) (n int) {
			for _, err := range cfg.Store.Files.List(t.Context(), ref) {
				require.NoError(t, err)
				n++
			}
			return n
		}
		runFor(t, cfg, func(rt *agent.Runtime) {
			task := agent.Task{Text: "x", Key: "k", Attachments: attaching("a", "one")}
			child, err := rt.Session(topKey).Spawn(t.Context(), task)
			require.NoError(t, err)
			require.Equal(t, agent.RunID("0af7a75b-a112-4c57-931a-84cd94d6964b"), child.ID())
			got, err := child.Wait(t.Context())
			require.NoError(t, err)
			require.Equal(t, "a=one", got)
			task.Attachments = attaching("a", "two")
			_, err = rt.Session(topKey).Spawn(t.Context(), task)
			require.ErrorIs(t, err, agent.ErrKeyConflict)
			own := session.Ref{Key: child.Key(), SessionID: string(child.ID())}
			require.Equal(t, []int{1, 1}, []int{count(was), count(own)})
			require.NoError(t, rt.Session(topKey).Reset(t.Context()))
			again, err := child.Post(t.Context(), agent.Incoming{Text: "again"})
			require.NoError(t, err)
			got, err = again.Wait(t.Context())
			require.NoError(t, err)
			require.Equal(t, "a=one", got)
			time.Sleep(8 * 24 * time.Hour)
			require.Equal(t, []int{0, 0}, []int{count(was), count(own)})
		})
	})
}

// The size in the error of what is over a limit is that of the attachments, where it is known. Else
// the error says that there is more than the limit, and not how much was read.
func TestSizesOfAttachmentsThatAreOverALimit(t *testing.T) {
	cfg := attachConfig("")
	cfg.Rules.Attachments.MaxFileBytes, cfg.Rules.Attachments.MaxTotalBytes = 1000, 1500
	text := func(n int) string { return strings.Repeat("x", n) }
	known := func(n int) io.Reader { return strings.NewReader(text(n)) }
	unknown := func(n int) io.Reader { return io.MultiReader(known(n)) }
	for name, c := range map[string]struct {
		files       []io.Reader
		size, limit int
		said        string
	}{
		"a text": {[]io.Reader{known(40_000)}, 40_000, 1000, "it has 40000 bytes, the limit is 1000"},
		"bytes":  {[]io.Reader{bytes.NewReader(make([]byte, 1001))}, 1001, 1000, "1001 bytes"},
		"a buffer": {
			[]io.Reader{known(1), bytes.NewBufferString(text(1002))}, 1002, 1000, "1002 bytes",
		},
		"a reader": {
			[]io.Reader{unknown(40_000)}, 0, 1000, "more than 1000 bytes, which is the limit",
		},
		"all texts": {[]io.Reader{known(900), known(800), known(700)}, 2400, 1500, "2400 bytes"},
		"all readers": {
			[]io.Reader{unknown(900), unknown(800), unknown(700)}, 0, 1500, "more than 1500 bytes",
		},
		"some readers": {
			[]io.Reader{known(900), unknown(10), known(700)}, 0, 1500, "more than 1500 bytes",
		},
	} {
		t.Run(name, func(t *testing.T) {
			agenttest.Run(t, cfg, nil, func(h *harness) {
				var list []agent.Attachment
				for i, in := range c.files {
					list = append(list, agent.Attachment{Name: fmt.Sprint(i), Reader: in})
				}
				_, err := h.Main().Spawn(h.Context(), agent.Task{Text: "x", Attachments: list})
				over, ok := errors.AsType[*agent.LimitError](err)
				require.True(t, ok, "%v", err)
				require.Equal(t, []int{c.size, c.limit}, []int{over.Size, over.Limit})
				require.ErrorContains(t, err, c.said)
				h.Pass(time.Second)
				require.Empty(t, h.Files())
			})
		})
	}
	agenttest.Run(t, cfg, nil, func(h *harness) {
		_, err := callTool(h, "sessions_spawn", "1", attachArgs(t, "a", text(1234)))
		require.ErrorContains(t, err, "1234 bytes, the limit is 1000")
	})
}
