package route

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn/internal/tree"
)

// An Op is one operation on a tree: one of the commands of package tree that a caller outside of
// turns sends, or one of the types below, which also wait for what comes of their commands.
type Op any

// A Stop stops a run and what is below it, and waits until nothing of it is alive.
type Stop struct {
	Session session.Key `json:"session"`
	Run     string      `json:"run,omitempty"` // empty: the present one
	Reason  tree.Text   `json:"reason,omitempty"`
}

// A Reset waits until a top-level session goes on in a new conversation.
type Reset struct {
	Session session.Key `json:"session"`
	ID      string      `json:"id,omitempty"` // of the message that asks for it; may be empty
}

// A Compact waits for a turn that compacts a conversation.
type Compact struct {
	Session session.Key `json:"session"`
}

// A Delete archives a session and waits until it is.
type Delete struct {
	Session session.Key `json:"session"`
	Reason  tree.Text   `json:"reason,omitempty"`
}

// A Revive brings an archived session back.
type Revive struct {
	Session session.Key `json:"session"`
}

// A Rest decides what becomes of runs that a wait leaves over, as [Rest.Rest] says: they are
// stopped, or their requesters are told of their ends.
type Rest struct {
	Sessions []session.Key `json:"sessions"`
	Runs     []string      `json:"runs"` // the id of the run of each of Sessions
	Rest     tree.Rest     `json:"rest"`
}

// A PostAndWait posts a message and waits for the reply.
type PostAndWait struct {
	Post   *tree.Post    `json:"-"`
	Within time.Duration `json:"within,omitempty"` // 0: without limit
}

// A SendOut has a session send a message to another tree by the outbox of its own. With a Within it
// also waits for the reply, for at most so long.
type SendOut struct {
	Send   tree.SendOut  `json:"send"`
	Within time.Duration `json:"within,omitempty"` // 0: it does not wait
}

// A row is one operation of the list.
type row struct {
	name string
	// repeats says that it may be done again while it is not known whether it was done: the journal
	// knows it by its id, or it comes to the same.
	repeats bool
	of      reflect.Type
	encode  func(Op) ([]byte, error)
	decode  func([]byte) (Op, error)
}

// ops are all operations. A name that was in use is not used for anything else.
var ops = []row{
	via("spawn", true, toSpawn, (*wireSpawn).op),
	via("post", true, toPost, (*wirePost).op),
	via("ensure", true, toEnsure, (*wireEnsure).op),
	via("bind", true, toBind, (*wireBind).op),
	via("post_and_wait", true, toPostAndWait, (*wirePostAndWait).op),
	plain[*SendOut]("send_out", true),
	plain[tree.Abandon]("abandon", true),
	plain[*tree.Unbind]("unbind", true),
	plain[*tree.Steer]("steer", true),
	plain[tree.SetRoute]("set_route", true),
	plain[tree.Ready]("ready", true),
	plain[tree.CancelTurn]("cancel_turn", false), // another turn may be under way
	plain[tree.Retry]("retry", false),            // it may be blocked once more
	plain[tree.Dismiss]("dismiss", false),        // it would not be found
	plain[*Stop]("stop", true),
	plain[*Reset]("reset", false),     // it would put another conversation away
	plain[*Compact]("compact", false), // that would be another turn
	plain[*Delete]("delete", false),   // it would not be found, or go on in another conversation
	plain[*Revive]("revive", true),
	plain[*Rest]("rest", false), // what the first has decided, the second would not return
}

// plain returns the row of an operation that encodes itself.
func plain[T any](name string, repeats bool) row {
	return row{
		name, repeats, reflect.TypeFor[T](), func(o Op) ([]byte, error) { return Marshal(o) },
		func(data []byte) (Op, error) {
			var v T
			err := json.Unmarshal(data, &v)
			return v, err
		},
	}
}

// via returns the row of an operation that has the form W.
func via[T, W any](name string, repeats bool, to func(T) *W, from func(*W) (T, error)) row {
	return row{
		name, repeats, reflect.TypeFor[T](),
		func(o Op) ([]byte, error) {
			v, _ := o.(T) // the row was found by its type
			return Marshal(to(v))
		},
		func(data []byte) (Op, error) {
			w := new(W)
			if err := json.Unmarshal(data, w); err != nil {
				return nil, err
			}
			return from(w)
		},
	}
}

// rowOf returns the row of an operation.
func rowOf(o Op) (row, bool) {
	i := slices.IndexFunc(ops, func(r row) bool { return r.of == reflect.TypeOf(o) })
	if i < 0 {
		return row{}, false
	}
	return ops[i], true
}

// Takes reports whether o is an operation that can be asked of another process.
func Takes(o Op) bool {
	_, ok := rowOf(o)
	return ok
}

// Repeats reports whether an operation may be done again while it is not known whether it was done.
func Repeats(o Op) bool {
	if s, ok := o.(*tree.Spawn); ok && s.Deposits {
		return false // the next owner gives up what one before has begun
	}
	r, ok := rowOf(o)
	return ok && r.repeats
}

var errIncomplete = errors.New("spawn: routing: the operation is incomplete")

// A wireSpawn is a spawn without what only one process can know. Its fields hide those of the
// command.
type wireSpawn struct {
	*tree.Spawn
	Request          wireRequest
	Answers, AskedOf *struct{} `json:",omitempty"`
}

// A wireRequest is a request to policy without its function.
type wireRequest struct {
	*policy.Request
	ValidModel *struct{} `json:",omitempty"`
}

func toSpawn(c *tree.Spawn) *wireSpawn {
	return &wireSpawn{Spawn: c, Request: wireRequest{Request: &c.Request}}
}

func (w *wireSpawn) op() (*tree.Spawn, error) {
	if w.Spawn == nil || w.Request.Request == nil {
		return nil, errIncomplete
	}
	w.Spawn.Request = *w.Request.Request
	return w.Spawn, nil
}

// A wirePost is a message without what only one process can know.
type wirePost struct {
	*tree.Post
	Answers *struct{} `json:",omitempty"`
}

func toPost(c *tree.Post) *wirePost { return &wirePost{Post: c} }

func (w *wirePost) op() (*tree.Post, error) {
	if w == nil || w.Post == nil {
		return nil, errIncomplete
	}
	return w.Post, nil
}

type wireEnsure struct {
	tree.Ensure
	Of *wirePost `json:",omitempty"`
}

func toEnsure(c tree.Ensure) *wireEnsure {
	w := &wireEnsure{Ensure: c}
	if c.Of != nil {
		w.Of = toPost(c.Of)
	}
	return w
}

func (w *wireEnsure) op() (c tree.Ensure, err error) {
	c = w.Ensure
	if w.Of != nil {
		c.Of, err = w.Of.op()
	}
	return c, err
}

type wireBind struct {
	*tree.Bind
	Answers *struct{} `json:",omitempty"`
}

func toBind(c *tree.Bind) *wireBind { return &wireBind{Bind: c} }

func (w *wireBind) op() (*tree.Bind, error) {
	if w.Bind == nil {
		return nil, errIncomplete
	}
	return w.Bind, nil
}

type wirePostAndWait struct {
	PostAndWait
	Post *wirePost
}

func toPostAndWait(c *PostAndWait) *wirePostAndWait {
	return &wirePostAndWait{*c, toPost(c.Post)}
}

func (w *wirePostAndWait) op() (*PostAndWait, error) {
	post, err := w.Post.op()
	if err != nil {
		return nil, err
	}
	return &PostAndWait{post, w.Within}, nil
}

// Version is that of the form. A process refuses what has a later one.
const Version = 1

// A Request is what one process asks of the one that has a tree.
type Request struct {
	Op Op
	// Again says that the caller does not know whether it was done before, here or elsewhere.
	Again bool
	// Left is for how long the caller waits from now; 0: without limit.
	Left time.Duration
}

type wireForm struct {
	V     int             `json:"v"`
	Op    string          `json:"op"`
	Args  json.RawMessage `json:"args"`
	Again bool            `json:"again,omitempty"`
	Left  time.Duration   `json:"left,omitempty"`
}

// An UnknownError says that a process cannot do what it is asked, because it is of another version.
// Nothing has happened.
type UnknownError struct {
	Version int
	Op      string
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("spawn: the process that has the tree does not know the operation %q of "+
		"version %d of the protocol: update it", e.Op, e.Version)
}

// Marshal is json.Marshal without the escapes of HTML, which make a text up to six times as long.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// EncodeRequest returns the bytes of a request. The error is a *[tree.InputError] for a text that
// they cannot keep.
func EncodeRequest(r Request) ([]byte, error) {
	o, ok := rowOf(r.Op)
	if !ok {
		return nil, fmt.Errorf("spawn: routing: no operation has the type %T", r.Op)
	}
	args, err := o.encode(r.Op)
	if err != nil {
		return nil, fmt.Errorf("spawn: routing: %s: %w", o.name, err)
	}
	if replaced(args) {
		return nil, &tree.InputError{Field: "command", Reason: "a text of it is not UTF-8"}
	}
	return Marshal(wireForm{Version, o.name, args, r.Again, r.Left})
}

// replaced reports whether the encoder has replaced bytes that are not UTF-8: it writes the escape
// of U+FFFD for them, and that rune itself as it is.
func replaced(data []byte) bool {
	const escape = `\ufffd`
	for i := 0; i+len(escape) <= len(data); i++ {
		if data[i] != '\\' {
			continue
		}
		if string(data[i:i+len(escape)]) == escape {
			return true
		}
		i++ // what is escaped
	}
	return false
}

// DecodeRequest reads what EncodeRequest wrote. The error is an *[UnknownError] if another version
// did.
func DecodeRequest(data []byte) (Request, error) {
	var w wireForm
	if err := json.Unmarshal(data, &w); err != nil {
		return Request{}, fmt.Errorf("spawn: routing: %w", err)
	}
	i := slices.IndexFunc(ops, func(r row) bool { return r.name == w.Op })
	if w.V != Version || i < 0 {
		return Request{}, &UnknownError{w.V, w.Op}
	}
	op, err := ops[i].decode(w.Args)
	if err == nil && reflect.ValueOf(op).Kind() == reflect.Pointer && reflect.ValueOf(op).IsNil() {
		err = errIncomplete
	}
	if err != nil {
		return Request{}, fmt.Errorf("spawn: routing: %s: %w", w.Op, err)
	}
	return Request{op, w.Again, w.Left}, nil
}

// An Answer is what came of a request: a value of the operation, and an error. Either may be there
// without the other.
type Answer struct {
	Value json.RawMessage
	Err   *Error
}

type wireAnswer struct {
	V     int             `json:"v"`
	Value json.RawMessage `json:"value,omitempty"`
	Err   *Error          `json:"err,omitempty"`
}

// EncodeAnswer returns the bytes of an answer.
func EncodeAnswer(a Answer) ([]byte, error) {
	return Marshal(wireAnswer{Version, a.Value, a.Err})
}

// DecodeAnswer reads what EncodeAnswer wrote.
func DecodeAnswer(data []byte) (Answer, error) {
	var w wireAnswer
	if err := json.Unmarshal(data, &w); err != nil {
		return Answer{}, fmt.Errorf("spawn: routing: the answer: %w", err)
	}
	if w.V != Version {
		return Answer{}, &UnknownError{w.V, "answer"}
	}
	return Answer{w.Value, w.Err}, nil
}

// A Reply is the part of a [tree.Reply] that callers outside of turns read.
type Reply struct {
	Session   session.Key `json:"session"`
	ID        string      `json:"id,omitempty"`
	Run       string      `json:"run,omitempty"`
	SessionID string      `json:"sessionId,omitempty"` // empty: the reply has no run
	Began     bool        `json:"began,omitempty"`
	Existing  bool        `json:"existing,omitempty"`
}

// ReplyOf returns the reply to a command of a caller.
func ReplyOf(r tree.Reply) Reply {
	w := Reply{
		Session: r.Ref, ID: r.ID, Run: r.RunID, Began: r.Began, Existing: r.Existing,
	}
	if r.Run != nil && r.Run.Spec != nil {
		w.SessionID = r.Run.Spec.SessionID
	}
	return w
}

// Tree returns the reply as a caller reads it. Of its run it has the SessionID alone.
func (w Reply) Tree() tree.Reply {
	r := tree.Reply{
		Ref: w.Session, ID: w.ID, RunID: w.Run, Began: w.Began, Existing: w.Existing,
	}
	if w.SessionID != "" {
		r.Run = tree.NewRun(tree.RunState{Spec: &tree.Spec{SessionID: w.SessionID}})
	}
	return r
}
