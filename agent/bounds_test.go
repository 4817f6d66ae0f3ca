package agent_test

import (
	"bytes"
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/binding"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// What becomes of a text that is too long.
const (
	refused = "refused"  // with an error that says the limit
	cut     = "cut"      // with a note in what is stored
	leftOut = "left out" // of what is stored
)

// boundless is how many bytes each text is given.
const boundless = 40 << 20

// A feeder gives a value to the library, and returns how it was refused. It keeps what the library
// stores in the store.
type feeder func(t *testing.T, store *session.Store, v reflect.Value) error

// A boundCase has what becomes of each text of a struct that enters the library, by its path. The
// empty path stands for the paths that are not named.
type boundCase struct {
	base any // a value that is taken
	feed feeder
	want map[string]string
}

var boundCases = []boundCase{
	{agent.Config{Runner: agent.RunnerFunc(nil)}, feedConfig, map[string]string{"": refused}},
	{
		spawn.Config{}, feedSpawnConfig, map[string]string{"": refused},
	},
	{agent.Task{Text: "x"}, feedTask, map[string]string{"": refused, ".Senders[...]": leftOut}},
	{spawn.Request{Task: "x"}, feedRequest, map[string]string{
		"": refused, ".Senders[...]": leftOut,
	}},
	{spawn.Incoming{Text: "x"}, feedIncoming, map[string]string{
		"": refused, ".From.Name": leftOut, ".Senders[...]": leftOut,
	}},
	{spawn.Event{ID: "x", Text: "x"}, feedEvent, map[string]string{"": refused, ".Origin": leftOut}},
	{spawn.Incoming{Text: "x"}, feedPost, map[string]string{
		"": refused, ".From.Name": leftOut, ".Senders[...]": leftOut,
	}},
	{spawn.SendOptions{Announce: true, Origin: "x"}, feedSend, map[string]string{"": refused}},
	{spawn.Saying{ID: "1", Text: "x"}, feedSay, map[string]string{
		"": refused, ".Text": cut, ".ReplyTo": leftOut,
	}},
	{spawn.Progress{Text: "x", Milestone: true}, feedProgress, map[string]string{".Text": leftOut}},
	{binding.Request{
		Conversation: session.Route{Channel: "chat", To: "1"}, Target: topKey, By: "me",
	}, feedBinding, map[string]string{"": refused}},
	{agent.FocusRequest{
		Conversation: session.Route{Channel: "chat", To: "1"}, Session: topKey, By: "me",
	}, feedFocus, map[string]string{"": refused}},
	{agent.ModelResponse{Text: "x"}, feedResponse, map[string]string{
		".Text":             cut,
		".Model":            leftOut,
		".Raw":              leftOut,
		".ToolCalls[].ID":   refused,
		".ToolCalls[].Name": leftOut,
		".ToolCalls[].Args": leftOut,
		".ToolCalls[...]":   leftOut,
		".Parts[].Kind":     leftOut, ".Parts[].MediaType": leftOut, ".Parts[].Name": leftOut,
		".Parts[].File.Hash": leftOut, ".Parts[].URL": leftOut, ".Parts[].Data": leftOut,
		".Parts[...]": leftOut,
	}},
	{agent.ToolResult{Text: "x"}, feedToolResult, map[string]string{"": leftOut, ".Text": cut}},
	{session.Message{Role: session.MessageAssistant, Text: "x"}, feedMessage, map[string]string{
		"":                  refused,
		".Text":             cut,
		".Model":            leftOut,
		".Raw":              leftOut,
		".ToolCalls[].Name": leftOut,
		".ToolCalls[].Args": leftOut,
		".Whole.Hash":       leftOut,
	}},
	{session.ToolCall{
		ID: "1", Name: "sessions_spawn", Args: []byte(`{"task":"x"}`),
	}, feedCall, map[string]string{"": refused, ".ID": leftOut}},
	{agent.Result{Text: "x"}, feedResult, map[string]string{
		"": refused, ".Text": cut, ".Model": leftOut,
		".Whole.Hash": leftOut, ".WholeJSON.Hash": leftOut,
	}},
	{spawn.TurnResult{}, feedTurnResult, map[string]string{
		"":             refused,
		".Result.Text": cut, ".Fallback": cut, ".Reply": cut, ".Note": leftOut,
		".Refused": cut,
		".ReplyTo": leftOut, ".Result.Model": leftOut,
		".Result.Whole.Hash": leftOut, ".Result.WholeJSON.Hash": leftOut,
		".Models[].Model": leftOut, ".Models[...]": leftOut,
	}},
}

// otherStructs have the structs that no caller, model or tool gives to the library, or that it does
// not keep, and the parts of those in boundCases.
var otherStructs = map[string]string{
	"a part of a Config": "agent.Limits agent.Loop agent.Models agent.Prompts agent.Runners " +
		"agent.Tool agent.AnnounceTurn agent.Summarizer agent.Window agent.Threads agent.ThreadChannel " +
		"agent.ExternalRuntime",
	"a part of others": "session.Route session.Usage spawn.File spawn.ModelUsage spawn.Result " +
		"session.Store session.File session.Part session.Sender agent.ModelChunk " +
		"agent.Attachment",
	"made by the library": "agent.Caller agent.CallbackError agent.Child agent.ConfigError " +
		"agent.CompactRequest agent.DirError agent.WindowError agent.HistoryLine agent.HistoryPage " +
		"agent.EndedHook agent.Hooks spawn.EndedRun spawn.SpawningRun spawn.VetoError " +
		"agent.JoinError agent.MainSessionError agent.ModelRequest agent.Outcome agent.ResultError agent.RunError " +
		"agent.MissingCredentialError " +
		"agent.Runtime agent.Session agent.Turn agent.ArgumentError " +
		"agent.ToolValueError agent.ToolTimeoutError agent.CallID session.PartError " +
		"spawn.AmbiguousError spawn.AskedFunction spawn.CallbackError spawn.Completion spawn.Delivery spawn.Input " +
		"spawn.ModelInfo spawn.NotBlockedError spawn.OutboxEntry spawn.Reply spawn.RunInfo " +
		"spawn.SentMessage " +
		"spawn.SessionInfo spawn.SessionStatus spawn.BudgetStatus spawn.StillRunningError spawn.Supervisor spawn.TreeEvent " +
		"spawn.TreeView spawn.TurnInput spawn.Unread spawn.UsageReport spawn.UsageRow " +
		"spawn.SessionState spawn.TreeState spawn.Receipt spawn.BoundSession spawn.UnbindRequest " +
		"spawn.TidyRequest spawn.Deposit " +
		"session.CorruptError session.KeyError session.LineageError session.Mended " +
		"agent.NewThread agent.Farewell agent.RunList agent.TargetError binding.SettingError " +
		"binding.Binding binding.Error binding.Policy binding.Table binding.Unbound",
	"between the library and a store": "session.Batch session.Entry session.Head session.Line " +
		"session.LineQuery session.Ref session.RepairMark session.RootQuery " +
		"session.FileReader session.Archived session.CopyMark",
	"between the library and an Owners, which no Config takes yet": "session.Claim session.LaneUser " +
		"session.Lease session.Member session.OwnedError session.Process session.Request session.Ticket",
	"a value that the library does not keep": "session.Aliases session.Key session.Lineage " +
		"session.Record agent.TargetQuery binding.Settings spawn.SessionQuery spawn.UsageQuery " +
		"spawn.Cursor spawn.RunRef spawn.EventQuery spawn.Delta spawn.ToolEvent " +
		"spawn.RetryAfterError " +
		"agent.UnfocusRequest agent.RouteRequest " +
		"agent.Profile agent.Profiles agent.Secret " +
		"agent.RateLimited", // its text is bounded where it is shown
	"numbers alone": "agent.HistoryQuery agent.Price session.Compacted spawn.JoinOptions " +
		"spawn.Waited binding.Limit",
}

// S10: nothing that enters the library is without a bound. The table has every exported struct of
// the packages, and every text in those that enter.
func TestEveryInputIsBounded(t *testing.T) {
	skipUnderRace(t)
	var known []string
	for _, list := range otherStructs {
		known = append(known, strings.Fields(list)...)
	}
	for _, c := range boundCases {
		name := reflect.TypeOf(c.base).String()
		if !slices.Contains(known, name) {
			known = append(known, name)
		}
	}
	slices.Sort(known)
	require.Equal(t, exportedStructs(t), known, "each struct has a case, or a reason for none")

	big := strings.Repeat("x", boundless)
	for _, c := range boundCases {
		typ := reflect.TypeOf(c.base)
		require.NoError(t, feedBounded(t, c, func(reflect.Value) {}, leftOut), "%v", typ)
		all := textsOf("", typ, nil)
		for path := range c.want {
			require.True(t, path == "" || all[path] != nil, "%v%s is not there", typ, path)
		}
		for _, path := range slices.Sorted(maps.Keys(all)) {
			want, ok := c.want[path]
			if !ok {
				want, ok = c.want[""]
			}
			require.True(t, ok, "%v%s has no case", typ, path)
			if underRace && rand.IntN(8) > 0 { // the step large of .ci/run feeds all of them
				continue
			}
			t.Run(typ.String()+path, func(t *testing.T) {
				err := feedBounded(t, c, func(v reflect.Value) { all[path](v, big) }, want)
				if want != refused {
					require.NoError(t, err)
					return
				}
				require.Error(t, err)
				require.Less(t, len(err.Error()), 1000)
				require.Regexp(t, `limit is|no tool|not a role|Parts\[0\]`, err.Error())
			})
		}
	}
}

// feedBounded feeds the base of a case with a change, and checks what is stored.
func feedBounded(t *testing.T, c boundCase, change func(reflect.Value), want string) error {
	v := reflect.New(reflect.TypeOf(c.base)).Elem()
	v.Set(reflect.ValueOf(c.base))
	change(v)
	store, weighed := weighedStore()
	err := c.feed(t, store, v)
	weighed.check(t, want)
	return err
}

// textsOf returns the texts in a struct of this module and in those inside it by their path, each
// as a function that gives it to a value of the type. The path [...] is that of many items.
func textsOf(
	path string, typ reflect.Type, in []reflect.Type,
) map[string]func(v reflect.Value, big string) {
	all := make(map[string]func(v reflect.Value, big string))
	type wrapper func(v reflect.Value, set func(reflect.Value))
	under := func(path string, typ reflect.Type, wrap wrapper) {
		for at, set := range textsOf(path, typ, append(in, typ)) {
			all[at] = func(v reflect.Value, big string) {
				wrap(v, func(v reflect.Value) { set(v, big) })
			}
		}
	}
	if slices.Contains(in[:max(0, len(in)-1)], typ) && typ.Kind() == reflect.Struct {
		return all
	}
	switch typ.Kind() {
	case reflect.String:
		all[path] = func(v reflect.Value, big string) { v.SetString(big) }
	case reflect.Slice:
		if typ.Elem().Kind() == reflect.Uint8 {
			all[path] = func(v reflect.Value, big string) { v.SetBytes([]byte(big)) }
			break
		}
		under(path+"[]", typ.Elem(), func(v reflect.Value, set func(reflect.Value)) {
			list := reflect.MakeSlice(typ, 1, 1)
			set(list.Index(0))
			v.Set(list)
		})
		if len(all) > 0 {
			all[path+"[...]"] = func(v reflect.Value, big string) { v.Set(manyOf(typ, big)) }
		}
	case reflect.Map:
		under(path+"{}", typ.Elem(), func(v reflect.Value, set func(reflect.Value)) {
			elem := reflect.New(typ.Elem()).Elem()
			set(elem)
			v.Set(reflect.MakeMap(typ))
			v.SetMapIndex(reflect.Zero(typ.Key()), elem)
		})
		under(path+"{key}", typ.Key(), func(v reflect.Value, set func(reflect.Value)) {
			key := reflect.New(typ.Key()).Elem()
			set(key)
			v.Set(reflect.MakeMap(typ))
			v.SetMapIndex(key, reflect.Zero(typ.Elem()))
		})
	case reflect.Pointer:
		under(path, typ.Elem(), func(v reflect.Value, set func(reflect.Value)) {
			v.Set(reflect.New(typ.Elem()))
			set(v.Elem())
		})
	case reflect.Struct:
		for f := range typ.Fields() {
			if f.IsExported() {
				under(path+"."+f.Name, f.Type, func(v reflect.Value, set func(reflect.Value)) {
					set(v.FieldByIndex(f.Index))
				})
			}
		}
	default:
	}
	return all
}

// manyOf returns a slice with many items, which takes as much memory.
func manyOf(typ reflect.Type, big string) reflect.Value {
	if typ.Elem().Kind() != reflect.String {
		n := boundless / int(typ.Elem().Size())
		return reflect.MakeSlice(typ, n, n)
	}
	list := reflect.MakeSlice(typ, boundless/100, boundless/100)
	for i := range list.Len() {
		list.Index(i).SetString(big[:100])
	}
	return list
}

// exportedStructs returns the exported structs of the packages whose input is bounded.
func exportedStructs(t *testing.T) (names []string) {
	t.Helper()
	for pkg, dir := range map[string]string{
		"agent": ".", "spawn": "../spawn", "session": "../session", "binding": "../session/binding",
	} {
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		for _, e := range entries {
			if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), dir+"/"+e.Name(), nil, 0)
			require.NoError(t, err)
			ast.Inspect(file, func(n ast.Node) bool {
				spec, ok := n.(*ast.TypeSpec)
				if !ok {
					return true
				}
				if _, isStruct := spec.Type.(*ast.StructType); isStruct && spec.Name.IsExported() {
					names = append(names, pkg+"."+spec.Name.Name)
				}
				return false
			})
		}
	}
	slices.Sort(names)
	return names
}

// weighedStore returns a store in memory, and the scale for what is appended to it.
func weighedStore() (*session.Store, *scale) {
	store, weighed := session.NewMemory(), new(scale)
	return &session.Store{
		Journal:     scaleJournal{store.Journal, weighed},
		Transcripts: scaleTranscripts{store.Transcripts, weighed},
		Files:       scaleFiles{store.Files, weighed},
	}, weighed
}

// check checks what is stored when a text was refused, cut or left out.
func (s *scale) check(t *testing.T, want string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Less(t, s.bytes, 4_500_000, "what is stored")
	require.Equal(t, want == cut, s.notes > 0, "a note says what was cut")
}

// A scale weighs what is appended to a store.
type scale struct {
	mu    sync.Mutex
	bytes int
	notes int // texts that were cut
}

func (s *scale) add(p session.Payload) {
	if data, err := p.AppendJSON(nil); err == nil {
		s.weigh(data)
	}
}

func (s *scale) weigh(data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes += len(data)
	s.notes += strings.Count(string(data), "cut here: it had")
}

type scaleFiles struct {
	session.Files
	scale *scale
}

func (f scaleFiles) Put(
	ctx context.Context, ref session.Ref, r io.Reader, want session.File,
) (session.File, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return session.File{}, err
	}
	f.scale.weigh(data)
	return f.Files.Put(ctx, ref, bytes.NewReader(data), want)
}

type scaleJournal struct {
	session.Journal
	scale *scale
}

func (j scaleJournal) Append(
	ctx context.Context, root session.Key, after session.Seq, b session.Batch,
) (session.Seq, error) {
	for _, e := range b.Entries {
		j.scale.add(e.Payload)
	}
	return j.Journal.Append(ctx, root, after, b)
}

type scaleTranscripts struct {
	session.Transcripts
	scale *scale
}

func (s scaleTranscripts) Append(
	ctx context.Context, ref session.Ref, after session.Pos, m ...session.Message,
) (session.Pos, error) {
	for _, m := range m {
		s.scale.add(m)
	}
	return s.Transcripts.Append(ctx, ref, after, m...)
}
