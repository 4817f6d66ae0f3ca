package mcp

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/offshoot-sdk/offshoot/agent"
)

// A GoneError says that a server has a tool no longer.
type GoneError struct{ Server, Tool string }

func (e *GoneError) Error() string {
	return fmt.Sprintf("mcp: the server %q does not have the tool %q any more", e.Server, e.Tool)
}

// A ToolError is what a server answers to a call that failed. Its text is that of the server, with
// the secrets masked that the program has given it, such as a token of [Server].Header.
type ToolError struct {
	Server, Tool string
	Text         string
}

func (e *ToolError) Error() string { return e.Text }

// maxToolName is how many bytes the name of a tool has at most, for models and for agent.Open.
const maxToolName = 64

// maxSchema is how many bytes the schema of a tool has at most.
const maxSchema = 50_000

// A runFunc calls a tool of a server.
type runFunc func(
	ctx context.Context, l *link, d definition, c agent.ToolCall,
) (agent.ToolResult, error)

// A definition is a tool as models know it. It is not changed.
type definition struct {
	name        string // for models
	own         string // for the server; empty: one of the tools for resources
	description string
	schema      json.RawMessage
	readOnly    bool
	idempotent  bool
	run         runFunc
}

func (d definition) equal(e definition) bool {
	return d.name == e.name && d.own == e.own && d.description == e.description &&
		bytes.Equal(d.schema, e.schema) && d.readOnly == e.readOnly && d.idempotent == e.idempotent
}

// definitions asks the server for its tools, and returns them sorted by name.
func (l *link) definitions(ctx context.Context, s *sdk.ClientSession) ([]definition, error) {
	var list []definition
	can := s.InitializeResult()
	if can == nil || can.Capabilities == nil {
		return nil, errors.New("it does not say what it can do")
	}
	if can.Capabilities.Tools != nil {
		var err error
		if list, err = l.ownTools(ctx, s); err != nil {
			return nil, fmt.Errorf("tools: %w", err)
		}
	}
	rename(l.cfg.Name, list)
	list = l.distinct(list)
	if can.Capabilities.Resources != nil && !l.cfg.HideResources {
		for _, d := range resourceTools(l.cfg.Name) {
			if slices.ContainsFunc(list, func(own definition) bool {
				return strings.EqualFold(own.name, d.name)
			}) {
				l.log.Warn("mcp: a tool of the server takes the name of one for its resources",
					"tool", d.name)
				continue
			}
			list = append(list, d)
		}
	}
	slices.SortFunc(list, func(a, b definition) int { return strings.Compare(a.name, b.name) })
	return list, ctx.Err()
}

// ownTools returns the first MaxTools tools that the server lists. Of those with one name it is the
// first, since a call has nothing but the name.
func (l *link) ownTools(ctx context.Context, s *sdk.ClientSession) ([]definition, error) {
	var list []definition
	seen := map[string]bool{}
	twice := 0
	err := l.pages("tools", func(cursor string) (string, bool, error) {
		page, err := s.ListTools(ctx, &sdk.ListToolsParams{Cursor: cursor})
		if err != nil {
			return "", false, err
		}
		for _, t := range page.Tools {
			switch {
			case t == nil:
				continue
			case seen[t.Name]:
				twice++
				continue
			case len(list) == MaxTools:
				l.log.Warn("mcp: a server has too many tools, the rest is left out", "limit", MaxTools)
				return "", false, nil
			}
			seen[t.Name] = true
			list = append(list, l.define(ctx, t))
		}
		return page.NextCursor, true, nil
	})
	if twice > 0 {
		l.log.Warn("mcp: a server lists tools more than once, and the first of each counts",
			"left_out", twice)
	}
	return list, err
}

// distinct leaves out tools whose names for models are those of others in spite of the hashes, as a
// server can bring about on purpose. Which one stays does not depend on the order of the list.
func (l *link) distinct(list []definition) []definition {
	slices.SortFunc(list, func(a, b definition) int { return strings.Compare(a.own, b.own) })
	seen := map[string]bool{}
	return slices.DeleteFunc(list, func(d definition) bool {
		name := strings.ToLower(d.name)
		if seen[name] {
			l.log.Warn("mcp: a tool of a server has the name of another one, and is left out",
				"tool", d.name)
			return true
		}
		seen[name] = true
		return false
	})
}

// define returns what a tool of the server is for a model.
func (l *link) define(ctx context.Context, t *sdk.Tool) definition {
	d := definition{own: t.Name, run: callTool}
	d.description = bounded(l.cfg.maskedOwn(clean(t.Description)), MaxDescription)
	if d.description == "" {
		d.description = bounded(l.cfg.maskedOwn(clean(t.Title)), MaxDescription)
	}
	if a := t.Annotations; a != nil && l.cfg.Trusted {
		d.readOnly, d.idempotent = a.ReadOnlyHint, a.IdempotentHint
	}
	schema, err := json.Marshal(t.InputSchema)
	if err != nil || t.InputSchema == nil {
		schema = json.RawMessage(anyObject)
	}
	schema = l.cfg.maskedSchema(schema)
	plain, fault := plainSchema(schema)
	if wrong := refused(ctx, plain); wrong != nil {
		plain, fault = json.RawMessage(anyObject), wrong
	}
	if fault != nil {
		l.log.Warn("mcp: the schema of a tool cannot be checked, and the server checks it alone",
			"tool", t.Name, "error", fault)
		d.description = bounded(d.description+"\n\nArguments, as a JSON Schema: "+string(schema),
			2*MaxDescription)
	}
	d.schema = plain
	return d
}

// notAtTheTop are the words that providers do not take at the top of the schema of a tool.
var notAtTheTop = []string{
	"$ref", "$dynamicRef", "allOf", "anyOf", "const", "else", "enum", "if", "not", "oneOf", "then",
}

// plainSchema returns a schema as providers take that of a tool: one of an object, which says so
// with its type, and without the words that combine schemas at its top. The fault says what the
// given one has beyond that; nil: nothing is lost, since arguments are an object in any case.
func plainSchema(schema json.RawMessage) (plain json.RawMessage, fault error) {
	var members map[string]json.RawMessage
	if json.Unmarshal(schema, &members) != nil || members == nil {
		return json.RawMessage(anyObject), errors.New("it is not an object")
	}
	for _, word := range notAtTheTop {
		if _, has := members[word]; has {
			delete(members, word)
			fault = fmt.Errorf("it has %q at its top, which providers do not take", word)
		}
	}
	var kinds []string
	switch kind := members["type"]; {
	case string(kind) == `"object"` && fault == nil:
		return schema, nil
	case kind == nil, string(kind) == `"object"`:
	case json.Unmarshal(kind, &kinds) == nil && slices.Contains(kinds, "object"):
	default:
		return json.RawMessage(anyObject), fmt.Errorf("its type is %.100s", kind)
	}
	members["type"] = json.RawMessage(`"object"`)
	plain, err := json.Marshal(members)
	if err != nil {
		return json.RawMessage(anyObject), err
	}
	return plain, fault
}

// anyObject is the schema of any arguments.
const anyObject = `{"type":"object"}`

// refused returns why agent.Open would refuse a tool with the schema; nil: it would not.
func refused(ctx context.Context, schema json.RawMessage) error {
	if len(schema) > maxSchema {
		return fmt.Errorf("it has %d bytes: the limit is %d", len(schema), maxSchema)
	}
	_, err := agent.Open(ctx, agent.Config{
		Runner: agent.RunnerFunc(func(context.Context, *agent.Turn) (agent.Result, error) {
			return agent.Result{}, nil
		}),
		Tools: []agent.Tool{{Name: "t", Schema: schema, Call: func(
			context.Context, agent.ToolCall,
		) (agent.ToolResult, error) {
			return agent.ToolResult{}, nil
		}}},
		Logger: slog.New(slog.DiscardHandler),
	})
	return err
}

// rename gives the tools of a server their names for models: mcp__<server>__<tool>. A tool whose
// own name cannot stand in one, is too long, or differs from another only in what is replaced or in
// letter case, has the beginning of the hash of its own name at the end, and so has one whose own
// name is made like that. So a name does not depend on the order of the list.
func rename(server string, list []definition) {
	isMarked := make([]bool, len(list))
	for again := true; again; { // ends, since each round marks one more
		again = false
		count := map[string]int{}
		for i := range list {
			list[i].name = modelName(server, list[i].own, isMarked[i])
			count[strings.ToLower(list[i].name)]++
		}
		for i := range list {
			name := list[i].name
			if !isMarked[i] && (count[strings.ToLower(name)] > 1 || len(name) > maxToolName ||
				strings.HasSuffix(name, "__")) {
				isMarked[i], again = true, true
			}
		}
	}
}

// modelName returns the name of a tool for models, with the hash of its own name or without.
func modelName(server, own string, isMarked bool) string {
	name := toolName(server, own)
	if !isMarked {
		return name
	}
	sum := sha256.Sum256([]byte(own))
	mark := "_" + hex.EncodeToString(sum[:4])
	return name[:min(len(name), maxToolName-len(mark))] + mark
}

// toolName returns the name of a tool for models, which may be too long.
func toolName(server, own string) string {
	return "mcp__" + server + "__" + strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' ||
			r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, own)
}

// tools returns the present list as tools of a Runtime.
func (l *link) tools() []agent.Tool {
	l.mu.Lock()
	list := l.list
	l.mu.Unlock()
	tools := make([]agent.Tool, 0, len(list))
	for _, d := range list {
		t := agent.Tool{
			Name: d.name, Description: d.description, Schema: slices.Clone(d.schema),
			Timeout: l.cfg.CallTimeout, Concurrent: d.readOnly,
			Call: func(ctx context.Context, c agent.ToolCall) (agent.ToolResult, error) {
				now, ok := l.current(d.name)
				if !ok {
					return agent.ToolResult{}, &GoneError{Server: l.cfg.Name, Tool: d.name}
				}
				return now.run(ctx, l, now, c)
			},
		}
		switch {
		case d.readOnly:
			t.Effect = agent.EffectReadOnly
		case d.idempotent:
			t.Effect = agent.EffectIdempotent
		}
		tools = append(tools, t)
	}
	return tools
}

// callTool calls a tool of the server.
func callTool(
	ctx context.Context, l *link, d definition, c agent.ToolCall,
) (agent.ToolResult, error) {
	params := &sdk.CallToolParams{Name: d.own}
	if len(bytes.TrimSpace(c.Args)) > 0 {
		params.Arguments = c.Args
	}
	token, done := l.tokens.begin(func(p agent.Progress) { _ = agent.Report(ctx, p) })
	defer done()
	params.SetProgressToken(token)
	res, err := ask(ctx, l, d.name, func(
		ctx context.Context, s *sdk.ClientSession,
	) (*sdk.CallToolResult, error) {
		return s.CallTool(ctx, params)
	})
	if err != nil {
		return agent.ToolResult{}, l.answered(d.name, err)
	}
	return l.result(d.name, res)
}

// answered returns an error of the protocol, with which a server answers, as a *ToolError, and any
// other as it is.
func (l *link) answered(tool string, err error) error {
	if refusal, ok := errors.AsType[*jsonrpc.Error](err); ok && isAnswer(err) {
		return &ToolError{Server: l.cfg.Name, Tool: tool, Text: fmt.Sprintf(
			"The server refuses the call: %s", cmp.Or(l.cfg.masked(clean(refusal.Message)),
				"it does not say why"))}
	}
	return err
}

// notSent is the code by which the SDK says that a request did not reach the server.
const notSent = -32005

// isAnswer reports whether an error is what a server answered.
func isAnswer(err error) bool {
	refusal, ok := errors.AsType[*jsonrpc.Error](err)
	return ok && refusal.Code != notSent && !slices.Contains(unreadable, refusal) &&
		!errors.Is(err, sdk.ErrConnectionClosed) && !errors.Is(err, sdk.ErrSessionMissing)
}

// unreadable are the errors with which the SDK gives a connection up whose server has sent what is
// not a message, and which it gives each call that is under way. They have codes as answers have,
// and are told from those by being the same values each time.
var unreadable = []*jsonrpc.Error{
	unreadableBy(`{"jsonrpc":"2.0","id":true,"result":{}}`), unreadableBy(`{"jsonrpc":"2.0"}`),
}

// unreadableBy returns the error of the SDK that is in the one for a message.
func unreadableBy(message string) *jsonrpc.Error {
	_, err := jsonrpc.DecodeMessage([]byte(message))
	of, _ := errors.AsType[*jsonrpc.Error](err)
	return of
}

// progress leads what servers say of how far they are to the calls that it is about.
type progress struct {
	mask  func(string) string // of secrets
	last  atomic.Int64
	mu    sync.Mutex
	calls map[int64]func(agent.Progress)
}

// begin returns the token of a call.
func (p *progress) begin(tell func(agent.Progress)) (token int64, done func()) {
	token = p.last.Add(1)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls == nil {
		p.calls = map[int64]func(agent.Progress){}
	}
	p.calls[token] = tell
	return token, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.calls, token)
	}
}

// tell hands over what a server says. A token that JSON has made another type of is that number.
func (p *progress) tell(n *sdk.ProgressNotificationParams) {
	token, ok := number(n.ProgressToken)
	if !ok {
		return
	}
	p.mu.Lock()
	tell := p.calls[token]
	p.mu.Unlock()
	if tell == nil {
		return
	}
	told := agent.Progress{Text: bounded(p.mask(clean(n.Message)), maxLine)}
	if n.Total > 0 && n.Progress > 0 {
		told.Percent = int(min(100, 100*n.Progress/n.Total))
	}
	tell(told)
}

func number(v any) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case int:
		return int64(v), true
	case float64:
		return int64(v), v == float64(int64(v))
	case json.Number:
		n, err := v.Int64()
		return n, err == nil
	}
	return 0, false
}
