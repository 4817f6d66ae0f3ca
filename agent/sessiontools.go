package agent

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/agent/internal/attach"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// The session tools.
const (
	toolSpawn     = "sessions_spawn"
	toolSubagents = "subagents"
	toolYield     = "sessions_yield"
	toolSend      = "sessions_send"
	toolAgents    = "agents_list"
	toolSessions  = "sessions_list"
	toolHistory   = "sessions_history"
	toolStatus    = "session_status"
)

var sessionToolNames = []string{
	toolSpawn, toolSubagents, toolYield, toolSend,
	toolAgents, toolSessions, toolHistory, toolStatus,
}

// sessionToolDocs are the session tools as prompts mention them.
var sessionToolDocs = []agentctx.Tool{
	{Name: toolSpawn, Summary: "Start a sub-agent for a task; returns at once, the result is announced later."},
	{Name: toolSubagents, Summary: "List, inspect, steer or stop your sub-agents."},
	{Name: toolYield, Summary: "End this turn and wait for your sub-agents without polling."},
	{Name: toolSend, Summary: "Send a message to a sub-agent of yours; one that has ended goes on from it."},
	{Name: toolAgents, Summary: "List the agents that you may start sub-agents of."},
	{Name: toolSessions, Summary: "List the sessions that you can see, those that were active last first."},
	{Name: toolHistory, Summary: "Read the conversation of a session that you can see."},
	{Name: toolStatus, Summary: "Show the time, and the model, usage, cost and budget of a session."},
}

func sessionToolSummary(name string) string {
	for _, t := range sessionToolDocs {
		if t.Name == name {
			return t.Summary
		}
	}
	return ""
}

// toolHost is the session, and its turn, that a set of session tools works for.
type toolHost struct {
	rt      *Runtime
	session *Session
	turn    *Turn  // nil for a session that the caller runs
	token   string // names the turn in spawn keys: a retried turn has the same one

	from  []policy.Sender // without a turn: those for whom the caller's loop works
	heard *heard          // likewise: those whose words its tools have returned; nil: of no tools
}

// heard are the people for whom the sessions worked whose words one set of tools has returned to
// the caller's loop.
type heard struct {
	mu sync.Mutex
	of []policy.Sender
}

// hear has what the host calls, spawns and sends from now on work for people, too: those for whom
// another session has worked whose words a tool is about to return.
func (h toolHost) hear(ctx context.Context, of []policy.Sender) error {
	switch {
	case len(of) == 0:
	case h.turn != nil:
		return h.turn.spawn.Hear(ctx, of...)
	case h.heard != nil:
		h.heard.mu.Lock()
		h.heard.of = policy.MergeSenders(h.heard.of, of)
		h.heard.mu.Unlock()
	}
	return nil
}

// anyone is a person of whom nothing is known but that every rule holds that may.
var anyone = policy.Sender{ID: "*", Channel: "*", Peer: "*"}

// hearSession is hear for the words of a session that are on record, if that is a sub-agent. Of
// one that has been archived it is not known for whom it has worked: every rule applies then that
// may. So it is where its tree cannot be read, under rules that do not ask who speaks. A
// conversation with people binds nothing.
func (h toolHost) hearSession(ctx context.Context, key session.Key) error {
	if key == h.session.key || !key.IsSubagent() {
		return nil
	}
	root, err := h.rt.Session(key).tree(ctx)
	var info RunInfo
	if err == nil {
		info, err = h.rt.sup.Find(ctx, root, spawn.RunRef{Session: key})
	}
	switch {
	case err == nil:
		return h.hear(ctx, info.Senders)
	case errors.Is(err, ErrNotFound), !h.rt.cfg().Rules.BindsSenders() && !isLate(ctx, err):
		return h.hear(ctx, []policy.Sender{anyone})
	}
	return err
}

// sendersKey is the key under which the context of a call to Deliver holds the people for whom the
// sub-agents worked whose results it has.
type sendersKey struct{}

// senders returns the people for whom a call of a tool works.
func (h toolHost) senders(ctx context.Context) []policy.Sender {
	if h.turn != nil {
		return h.turn.Senders()
	}
	of, _ := ctx.Value(sendersKey{}).([]policy.Sender)
	of = policy.MergeSenders(h.from, of)
	if h.heard != nil {
		h.heard.mu.Lock()
		defer h.heard.mu.Unlock()
		of = policy.MergeSenders(of, h.heard.of)
	}
	return of
}

// requester returns what the session tools spawn from.
func (h toolHost) requester() Requester {
	if h.turn != nil {
		return h.turn
	}
	return h.session
}

// runs returns the sub-agents of the session.
func (h toolHost) runs(ctx context.Context) ([]RunInfo, error) {
	if h.turn != nil {
		return h.turn.spawn.Runs(ctx)
	}
	return h.session.Runs(ctx)
}

func (h toolHost) steer(ctx context.Context, run spawn.RunRef, m spawn.Incoming) error {
	if h.turn != nil {
		return h.turn.spawn.Steer(ctx, run, m)
	}
	root, err := h.session.tree(ctx)
	if err != nil {
		return err
	}
	m.Senders = h.senders(ctx)
	return h.rt.sup.Steer(ctx, root, h.session.key, run, m)
}

func (h toolHost) stop(ctx context.Context, run spawn.RunRef) error {
	const reason = "stopped by its requester"
	if h.turn != nil {
		return h.turn.spawn.Stop(ctx, run, reason)
	}
	root, err := h.session.tree(ctx)
	if err != nil {
		return err
	}
	return h.rt.sup.StopRun(ctx, root, run, reason)
}

// tools returns the session tools of the given names under a Config, in the order of the list
// below. Most sub-agents have none, so that nothing is made of the others. Now is what is left to
// the session, nil where the tree has to be asked.
func (h toolHost) tools(cfg *Config, now *policy.Authority, names []string) []Tool {
	var tools []Tool
	for _, t := range [...]struct {
		name   string
		schema json.RawMessage // of sessions_spawn: made of the Config
		call   func(toolHost, context.Context, ToolCall) (string, error)
	}{
		{toolSpawn, nil, toolHost.spawn},
		{toolSubagents, subagentsSchema, toolHost.subagents},
		{toolYield, yieldSchema, toolHost.yield},
		{toolSend, sendSchema, toolHost.send},
		{toolAgents, agentsSchema, toolHost.agents},
		{toolSessions, sessionsListSchema, toolHost.sessions},
		{toolHistory, historySchema, nil}, // it answers with more than a text
		{toolStatus, statusSchema, toolHost.status},
	} {
		switch {
		case !slices.Contains(names, t.name):
		case t.name == toolHistory:
			tools = append(tools, h.tool(t.name, t.schema, toolHost.history))
		case t.name == toolSpawn:
			tools = append(tools, h.tool(t.name, h.spawnSchema(cfg, now), textOf(t.call)))
		default:
			tools = append(tools, h.tool(t.name, t.schema, textOf(t.call)))
		}
	}
	return tools
}

// spawnSchema returns the schema of sessions_spawn for the session.
func (h toolHost) spawnSchema(cfg *Config, now *policy.Authority) json.RawMessage {
	schema := spawnSchema
	if h.turn == nil {
		schema = callerSpawnSchema
	}
	runtimes := cfg.runtimeNames()
	if now != nil {
		caller := policyCaller(h.session.key, now)
		schema = cfg.withAgents(schema, caller)
		runtimes, _ = cfg.runtimesFor(caller)
	}
	return cfg.withAttachments(cfg.withDirs(withRuntimes(cfg.withThreads(schema), runtimes)))
}

// tool returns one session tool. Its errors are in words for a model.
func (h toolHost) tool(
	name string, schema json.RawMessage,
	call func(toolHost, context.Context, ToolCall) (ToolResult, error),
) Tool {
	return Tool{
		Name: name, Description: sessionToolSummary(name), Schema: schema,
		Call: func(ctx context.Context, c ToolCall) (ToolResult, error) {
			out, err := call(h, ctx, c)
			return out, h.told(name, err)
		},
	}
}

// textOf returns a call that answers with a text as one that answers with a ToolResult.
func textOf(
	call func(toolHost, context.Context, ToolCall) (string, error),
) func(toolHost, context.Context, ToolCall) (ToolResult, error) {
	return func(h toolHost, ctx context.Context, c ToolCall) (ToolResult, error) {
		answer, err := call(h, ctx, c)
		return ToolResult{Text: answer}, err
	}
}

// contextSchema is the parameter of a spawn that a caller-run session does not have.
const contextSchema = `"context":{"type":"string","enum":["isolated","fork"],` +
	`"description":"what it knows at first: isolated (default): the task alone; ` +
	`fork: a copy of this conversation, too, up to the message that calls this tool"},`

var (
	spawnSchema       = newSpawnSchema(contextSchema)
	callerSpawnSchema = newSpawnSchema("")
)

// newSpawnSchema returns the schema of sessions_spawn with some more parameters.
func newSpawnSchema(more string) json.RawMessage {
	task := "what to do, complete in itself: the sub-agent sees nothing of this conversation"
	if more != "" {
		task += " unless context is fork"
	}
	return json.RawMessage(`{"type":"object","properties":{"task":{"type":"string",` +
		`"description":"` + task + `"},` + spawnProperties + more +
		`"cleanup":{"type":"string","enum":["keep","delete"],` +
		`"description":"delete: archive it as soon as its result has come to you"}` +
		`},"required":["task"]}`)
}

const spawnProperties = `"label":{"type":"string","description":"a short name for people"},` +
	`"taskName":{"type":"string","description":"what you call it in other tools: a letter from a to z, then at most 63 of a-z, 0-9, _ and -"},` +
	`"agentId":{"type":"string","description":"which agent does it; default: this one"},` +
	`"model":{"type":"string","description":"provider/model or its alias, if another than the default"},` +
	`"thinking":{"type":"string","description":"thinking level, if another than the default"},` +
	`"runTimeoutSeconds":{"type":"number","minimum":0,"description":"stop it after so many seconds; 0: never"},` +
	`"sandbox":{"type":"string","enum":["inherit","require"]},` +
	`"mode":{"type":"string","enum":["run"]},`

var yieldSchema = json.RawMessage(`{"type":"object","properties":{` +
	`"message":{"type":"string","description":"a note to yourself, for when you go on"},` +
	`"atLeast":{"type":"integer","minimum":1,"description":"go on when so many have ended well; default: when all have ended"},` +
	`"withinSeconds":{"type":"number","minimum":1,"description":"go on after so many seconds at the latest; ` +
	`default: no limit; at least 1, less is refused; the least doubles, up to 600, while nothing else happens"}` +
	`}}`)

// deliveryParams are the parameters of a delivery, which a spawn does not take: where a result goes
// is not the model's to choose.
var deliveryParams = []string{
	"target", "transport", "channel", "to", "threadId", "replyTo",
}

// spawnParams are the parameters of a spawn, and other names of theirs. Some take one value only.
var spawnParams = []string{
	"task", "label", "taskName", "agentId", "model", "thinking", "runTimeoutSeconds", "sandbox", "mode",
	"cleanup", "timeoutSeconds", "runtime", "thread", "context", "streamTo", "cwd", "attachments",
	"attachAs",
}

// keptParams are parameters that a spawn has elsewhere in the field and that stay with its owner
// here, with what the model is told. Each may be given as null, or empty.
var keptParams = map[string]string{
	"resumeSessionId": "the sessions of a program are not yours to name: a sub-agent goes on where " +
		"it was if you send it a message with " + toolSend + "; leave it out",
	"lightContext": "what a sub-agent sees is set by its owner; leave it out",
}

type spawnArgs struct {
	Task, Label, Name, AgentID, Model, Thinking string
	Dir, AttachAs                               string
	Attachments                                 attachmentArgs
	Timeout                                     time.Duration
	RequireSandbox, Thread, Stream              bool
	Runtime                                     string
	Mode                                        TaskMode
	Cleanup                                     Cleanup
	Context                                     string // "", "isolated" or "fork"
}

// offeredParams returns the parameters of a spawn that the schema of the session has.
func (h toolHost) offeredParams() (list []string) {
	var schema struct{ Properties map[string]json.RawMessage }
	if json.Unmarshal(h.spawnSchema(h.rt.cfg(), nil), &schema) != nil {
		return nil
	}
	for _, name := range spawnParams {
		if schema.Properties[name] != nil {
			list = append(list, name)
		}
	}
	return list
}

// readSpawn reads the arguments of a spawn. An error about one that is not known names those that
// are offered.
func readSpawn(raw json.RawMessage, offered func() []string) (q spawnArgs, err error) {
	a, err := readKnownArguments(toolSpawn, raw, spawnParams, offered)
	if err != nil {
		return q, err
	}
	q = spawnArgs{
		Task:           a.text("task"),
		Label:          a.text("label"),
		Name:           a.text("taskName"),
		AgentID:        a.text("agentId"),
		Model:          a.text("model"),
		Thinking:       a.text("thinking"),
		Dir:            a.text("cwd"),
		Attachments:    a.attachments(),
		AttachAs:       a.hint("attachAs"),
		RequireSandbox: a.word("sandbox", "inherit", "require") == "require",
		Context:        a.word("context", contextIsolated, contextFork),
	}
	if text.IsBlank(q.Task) {
		a.fail("task", "it is required")
	}
	if s, ok := a.number(numberRange{most: 1e10}, "runTimeoutSeconds", "timeoutSeconds"); ok {
		q.Timeout = time.Duration(math.Floor(min(s, 1e9))) * time.Second
		if s > 0 && q.Timeout == 0 {
			q.Timeout = time.Second // a part of a second is not "never"
		}
		if q.Timeout == 0 {
			q.Timeout = policy.Off
		}
	}
	q.Runtime = a.text("runtime")
	q.Stream = a.word("streamTo", "parent") != ""
	if q.Stream && (q.Runtime == "" || strings.EqualFold(q.Runtime, nativeRuntime)) {
		a.fail("streamTo", "it is for an external runtime; name one as runtime, or leave it out")
	}
	_ = q.Cleanup.UnmarshalText([]byte(a.word("cleanup", "keep", "delete"))) // empty: keep
	q.Thread = a.flag("thread")
	if word := a.word("mode", "run", "session"); word != "" {
		_ = q.Mode.UnmarshalText([]byte(word))
	}
	if q.Mode == TaskModeSession && !q.Thread {
		a.fail("mode", "a session stays open only in a thread; set thread to true, or leave mode out")
	}
	return q, a.err
}

// asksForNothing reports whether an argument is as good as left out.
func asksForNothing(value json.RawMessage) bool {
	return slices.Contains([]string{"null", `""`, "[]", "{}", "false"}, string(value))
}

// malformedRules are the rules that refuse what no caller may ask for, rather than what this one
// may not.
var malformedRules = []policy.Rule{
	policy.RuleAgentID, policy.RuleModel, policy.RuleThinking, policy.RuleTimeout,
}

// The values of the argument context of a spawn.
const (
	contextIsolated = "isolated"
	contextFork     = "fork"
)

// historyFor returns what the sub-agent of a spawn is to know of the conversation. Where that is
// what it knows anyway the task says nothing of it, so that a call that is repeated after an update
// is the same task.
func (h toolHost) historyFor(q *spawnArgs) (agentctx.History, error) {
	if q.Context == "" {
		return agentctx.HistoryInherit, nil
	}
	agent := cmp.Or(q.AgentID, h.rt.cfg().Rules.AgentOf(h.session.key))
	under := h.rt.cfg().subagentSpec(agent, agentctx.Spec{}).History
	switch {
	case q.Context == contextIsolated && under == agentctx.HistoryFork:
		return agentctx.HistoryIsolated, nil
	case q.Context == contextIsolated:
		return agentctx.HistoryInherit, nil
	case h.turn == nil:
		return 0, newArgumentError(toolSpawn, "context", "this conversation is not kept here; "+
			"leave context out, and put what the sub-agent must know into its task")
	case under == agentctx.HistoryIsolated:
		return 0, newArgumentError(toolSpawn, "context", "sub-agents of agent "+h.rt.quote(agent)+
			" begin without a conversation; leave context out, and put what the sub-agent must "+
			"know into its task")
	}
	return agentctx.HistoryFork, nil
}

// contextOf returns what the model is told of what a sub-agent begins with; "": the task alone.
func (h toolHost) contextOf(t *Task) string {
	if h.turn != nil && h.rt.cfg().forks(h.session.key, t) {
		return contextFork
	}
	return ""
}

// spawnReply is what the model is told of a spawn.
type spawnReply struct {
	Status          string   `json:"status"` // accepted, forbidden or error
	RunID           string   `json:"runId,omitempty"`
	ChildSessionKey string   `json:"childSessionKey,omitempty"`
	TaskName        string   `json:"taskName,omitempty"`
	Mode            string   `json:"mode,omitempty"`
	Context         string   `json:"context,omitempty"`
	Model           string   `json:"model,omitempty"`
	ModelApplied    *bool    `json:"modelApplied,omitempty"`
	Note            string   `json:"note,omitempty"`
	Warnings        []string `json:"warnings,omitempty"`

	Attachments *attach.Summary `json:"attachments,omitempty"`

	Error string `json:"error,omitempty"`
	Rule  string `json:"rule,omitempty"`
	Asked string `json:"asked,omitempty"`
	Limit string `json:"limit,omitempty"`
	Path  string `json:"path,omitempty"`
}

// refusalReply is what the model is told of a refusal.
func (rt *Runtime) refusalReply(refusal *policy.Refusal) spawnReply {
	shown := refusal.Masked(rt.whole)
	status := "forbidden"
	if slices.Contains(malformedRules, refusal.Rule) {
		status = "error"
	}
	return spawnReply{
		Status: status, Error: shown.Error(), Rule: string(refusal.Rule),
		Asked: text.Bound(shown.Asked, maxCallID), Limit: refusal.Limit, Path: refusal.Path,
	}
}

// spawnTask starts a sub-agent of the session.
func (h toolHost) spawnTask(ctx context.Context, t *Task) (info RunInfo, err error) {
	return t.spawn(ctx, h.requester(), runExtra{Spec: t.Spec})
}

// origin returns the spawn.Request.Origin of what a model asks for.
func (h toolHost) origin(ctx context.Context) string {
	if h.turn != nil {
		return ""
	}
	answered, _ := ctx.Value(originKey{}).(string)
	return cmp.Or(answered, h.token)
}

func (h toolHost) spawn(ctx context.Context, c ToolCall) (string, error) {
	q, err := readSpawn(c.Args, h.offeredParams)
	if err != nil {
		return "", err
	}
	task := Task{
		Text: q.Task, Label: q.Label, Name: q.Name,
		Agent: q.AgentID, Model: q.Model, Thinking: q.Thinking, Timeout: q.Timeout,
		Sandbox: q.RequireSandbox, Announce: true, byModel: true, Dir: q.Dir,
		Attachments: q.Attachments.task(), AttachAs: q.AttachAs,
		Thread: q.Thread, Mode: q.Mode, Cleanup: q.Cleanup,
		Runtime: q.Runtime, Stream: q.Stream,
	}
	if h.rt.cfg().tellsChat(h.session.key) {
		task.Announce, task.Update = false, true
	}
	if task.origin = h.origin(ctx); h.turn == nil {
		task.Senders = h.senders(ctx)
	}
	if task.Spec.History, err = h.historyFor(&q); err != nil {
		return "", err
	}
	if place, _ := ctx.Value(placeKey{}).(string); c.ID != "" || place != "" {
		task.Key = h.spawnKey(h.token + place + "/" + shortID(c.ID))
	}
	info, err := h.spawnTask(ctx, &task)
	if errors.Is(err, ErrKeyConflict) {
		// The provider uses its ids again, or a turn that is retried asks for something else.
		sum := sha256.Sum256(c.Args)
		task.Key = h.spawnKey(task.Key + "/" + hex.EncodeToString(sum[:16]))
		task.Attachments = q.Attachments.task() // the first spawn may have read them
		info, err = h.spawnTask(ctx, &task)
	}
	if errors.Is(err, ErrStale) || errors.Is(err, spawn.ErrShutdown) || ctx.Err() != nil {
		return "", err // no model can do anything about it
	}
	if refusal, ok := errors.AsType[*policy.Refusal](err); ok {
		return jsonReply(h.rt.refusalReply(refusal))
	}
	if veto, ok := errors.AsType[*VetoError](err); ok {
		return jsonReply(spawnReply{
			Status: "forbidden", Error: "the program refuses this sub-agent: " + veto.Reason,
		})
	}
	if taken, ok := errors.AsType[*spawn.NameTakenError](err); ok {
		return jsonReply(spawnReply{Status: "error", Error: nameTakenText(taken)})
	}
	if bad := inArguments(err); bad != nil {
		return "", bad
	}
	if err != nil {
		return jsonReply(spawnReply{Status: "error", Error: h.rt.redact(h.told(toolSpawn, err)).Error()})
	}
	out := spawnReply{
		Status: "accepted", RunID: string(info.ID), ChildSessionKey: info.Key.String(),
		TaskName: info.Name, Mode: task.modeWord(), Context: h.contextOf(&task),
		Model:       text.Line(h.rt.toModels(info.Model.Resolved)),
		Warnings:    text.Listed(info.Warnings, h.rt.toModels),
		Attachments: task.given.summary(info.Key),
	}
	switch {
	case info.Status.Terminal():
		info.Error = h.rt.toModels(info.Error)
		out.Note = endedNote(info)
	case task.Update:
		out.Note = "It works on its own now. What it reports is said to the people of this conversation when it has ended, and not to you: do not poll for it."
	case h.session.key.Kind() != session.KindCron:
		out.Note = "It works on its own now. What it reports comes to you automatically when it has ended, unless it has nothing to say: do not poll for it."
	}
	if out.Mode == TaskModeSession.String() {
		out.Note += " It has a thread of its own: what people write there goes to it, and it answers there."
	}
	if info.Model.Requested != "" {
		applied := info.Model.Requested == info.Model.Resolved
		out.ModelApplied = &applied
	}
	return jsonReply(out)
}

// endedNote tells a model whose call was recorded before, in a turn that was cut off, that what it
// spawned then has ended since.
func endedNote(info RunInfo) string {
	note := "This call is a repetition: it has spawned this sub-agent before, which has ended: " +
		info.Status.String()
	if info.Error != "" {
		note += " (" + text.Line(info.Error) + ")"
	}
	return note + ". Nothing was begun now. What it reported comes to you, or has come. To have " +
		"its work done again, spawn it anew."
}

// nameTakenText tells a model why a sub-agent cannot have the name that it has chosen.
func nameTakenText(e *spawn.NameTakenError) string {
	return fmt.Sprintf("your sub-agent %q has not ended: run %s, session %s; take another "+
		"taskName, or send that one the task with %s", e.Name, e.Run, e.Session, toolSend)
}

// maxCallID is how long the id of a tool call is at most in the key of a spawn.
const maxCallID = 512

// shortID returns the id of a tool call, or its hash if it is long: some providers keep state in
// ids.
func shortID(id string) string {
	if len(id) <= maxCallID {
		return id
	}
	return fmt.Sprintf("%x", sha256.Sum256([]byte(id)))
}

// spawnKey returns a key of a spawn, or its hash where Limits.ID allows callers less than the key
// has.
func (h toolHost) spawnKey(key string) string {
	if limit := h.rt.cfg().Limits.ID; limit < 0 || len(key) <= limit {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:16])
}

func jsonReply(v any) (string, error) {
	data, err := json.Marshal(v)
	return string(data), err
}

func (h toolHost) yield(ctx context.Context, c ToolCall) (string, error) {
	a, err := readArguments(toolYield, c.Args,
		"atLeast", "withinSeconds", "message")
	if err != nil {
		return "", err
	}
	n := a.whole(1, math.MaxInt32, "to wait for all", "atLeast")
	within, _ := a.number(numberRange{
		least: 1, most: math.MaxFloat64, without: "to wait without limit",
	}, "withinSeconds")
	message := a.text("message")
	if a.err != nil {
		return "", a.err
	}
	if h.turn == nil {
		return "", newArgumentError(toolYield, "(all)", "this session is not run by Offshoot")
	}
	runs, err := h.runs(ctx)
	if err != nil {
		return "", err
	}
	if !slices.ContainsFunc(runs, func(r RunInfo) bool { return !r.Status.Terminal() }) {
		// To end the turn here would end a run that has not answered.
		return jsonReply(map[string]string{
			"status": "nothing to wait for",
			"note":   "None of your sub-agents is at work any more. Go on.",
		})
	}
	opt := JoinOptions{
		AtLeast: n, Within: time.Duration(min(within, 1e9) * float64(time.Second)),
	}
	waits, err := h.turn.yieldByModel(ctx, opt)
	if err != nil {
		return "", err
	}
	reply := map[string]any{
		"status": "yielded", "note": "This turn ends now; another one begins when the wait is over.",
	}
	if message != "" { // the next turn reads it here
		reply["message"] = message
	}
	if waits > 0 {
		reply["withinSeconds"] = waits.Seconds()
	}
	return jsonReply(reply)
}
