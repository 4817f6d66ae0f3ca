package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

var subagentsSchema = json.RawMessage(`{"type":"object","properties":{` +
	`"action":{"type":"string","enum":["list","info","steer","kill"],"description":"default: list"},` +
	`"target":{"type":"string","description":"taskName, run id, session key, label, or number in the list that this turn has shown; for kill also all"},` +
	`"message":{"type":"string","description":"for steer: at most 4000 characters"}` +
	`}}`)

// subagentLine is what the model is told of a sub-agent.
type subagentLine struct {
	Number     int      `json:"number,omitempty"` // in the list that was shown last
	RunID      string   `json:"runId"`
	SessionKey string   `json:"sessionKey"`
	TaskName   string   `json:"taskName,omitempty"`
	Label      string   `json:"label,omitempty"` // in a list at most 48 characters of it
	Agent      string   `json:"agent"`
	Status     string   `json:"status"`
	Task       string   `json:"task,omitempty"`
	Runtime    string   `json:"runtime,omitempty"`
	Turns      int      `json:"turns,omitempty"`
	Children   int      `json:"activeChildren,omitempty"`
	Model      string   `json:"model,omitempty"`
	Error      string   `json:"error,omitempty"`
	Usage      *Usage   `json:"usage,omitempty"`
	Tools      []string `json:"tools,omitempty"`

	Conversations []session.Route `json:"conversations,omitempty"`
}

func newSubagentLine(n int, r RunInfo, whole bool) subagentLine {
	l := subagentLine{
		Number: n, RunID: string(r.ID), SessionKey: r.Key.String(), TaskName: r.Name,
		Label: text.Label(r.Label), Agent: r.Agent, Status: r.Status.String(),
		Turns: r.Turns, Children: r.Children, Error: text.Line(r.Error),
		Conversations: r.Conversations,
	}
	if d := r.Elapsed(time.Now()); d > 0 {
		l.Runtime = d.Round(time.Second).String()
	}
	if whole {
		l.Task, l.Label = text.Line(r.Task), r.Label
		l.Model, l.Tools = r.Model.Resolved, r.Tools
		l.Usage = &r.Result.Usage
	}
	return l
}

func (h toolHost) subagents(ctx context.Context, c ToolCall) (string, error) {
	a, err := readArguments(toolSubagents, c.Args, "action", "target", "message")
	if err != nil {
		return "", err
	}
	action := a.word("action", "list", "info", "steer", "kill")
	target, message := a.text("target"), a.text("message")
	if a.err != nil {
		return "", a.err
	}
	runs, err := h.runs(ctx)
	if errors.Is(err, spawn.ErrNotFound) {
		runs, err = nil, nil
	}
	if err != nil {
		return "", err
	}
	if action == "" || action == "list" {
		h.shown.show(runs)
		lines := make([]subagentLine, len(runs))
		for i, r := range runs {
			lines[i] = newSubagentLine(i+1, r, false)
		}
		return jsonReply(map[string]any{"subagents": lines})
	}
	chosen, err := h.choose(ctx, toolSubagents, runs, target, action == "kill")
	if err != nil {
		return "", err
	}
	if action == "info" {
		if err := h.authorize(policy.VerbStatus, chosen[0]); err != nil {
			return "", err
		}
		return jsonReply(newSubagentLine(h.shown.number(chosen[0].Ref()), chosen[0], true))
	}
	return h.runAction(ctx, action, message, chosen, laterRun(runs, chosen))
}

// laterRun returns the run that has followed the one that is chosen, if that is not the present one
// of its session. Else it is zero.
func laterRun(runs, chosen []RunInfo) (later RunInfo) {
	if len(chosen) != 1 {
		return later
	}
	i := slices.IndexFunc(runs, func(r RunInfo) bool {
		return r.Key == chosen[0].Key && r.ID != chosen[0].ID
	})
	if i >= 0 {
		later = runs[i]
	}
	return later
}

// followedNote tells a model that what it wants to reach has ended, and that its session goes on.
func followedNote(ended, later RunInfo) string {
	return fmt.Sprintf("run %s has ended, and nothing of it can be steered or stopped; "+
		"run %s has followed it in the same session: name that if you mean it", ended.ID, later.ID)
}

func (h toolHost) runAction(
	ctx context.Context, action, message string, chosen []RunInfo, later RunInfo,
) (string, error) {
	for _, r := range chosen {
		if err := h.authorize(actionVerbs[action], r); err != nil {
			return "", err
		}
	}
	if action == "steer" {
		if later.ID != "" {
			return "", fmt.Errorf("agent: %w: %s", ErrEnded, followedNote(chosen[0], later))
		}
		if err := h.steer(ctx, chosen[0].Ref(), spawn.Incoming{Text: message}); err != nil {
			return "", err
		}
		return jsonReply(map[string]string{"status": "accepted", "runId": string(chosen[0].ID)})
	}
	stopped := []string{}
	var failed []error
	for _, r := range chosen {
		if r.Status.Terminal() {
			continue
		}
		if err := h.stop(ctx, r.Ref()); err != nil {
			failed = append(failed, err)
			continue
		}
		stopped = append(stopped, string(r.ID))
	}
	if len(failed) > 0 {
		return "", errors.Join(failed...)
	}
	reply := map[string]any{"status": "ok", "stopped": stopped}
	if later.ID != "" {
		reply["note"] = followedNote(chosen[0], later)
	}
	return jsonReply(reply)
}

var actionVerbs = map[string]policy.Verb{
	"steer": policy.VerbSteer, "kill": policy.VerbStop,
}

// authorize asks policy whether the session may do something with one of its sub-agents.
func (h toolHost) authorize(v policy.Verb, r RunInfo) error {
	above := []session.Key{r.Parent, h.session.key, r.Root} // it is in the list of h
	return h.authorizeFor(v, policy.Target{Key: r.Key, Ancestors: above})
}

// authorizeFor asks policy whether the session may do something with another.
func (h toolHost) authorizeFor(v policy.Verb, to policy.Target) error {
	c := policy.Caller{Key: h.session.key, Role: session.RoleMain}
	if h.turn != nil {
		now := &h.turn.spawn.Authority
		c.Role, c.Depth, c.Sandboxed = now.Role, now.Depth, now.Sandboxed
	}
	return inOurWords(h.rt.cfg.Rules.Authorize(c, v, to))
}

// shownList is the list of sub-agents that a set of tools has shown last. A number means a run of
// it: the next list may have another run in the same place.
type shownList struct {
	mu   sync.Mutex
	runs []spawn.RunRef // guarded by mu
}

func (l *shownList) show(runs []RunInfo) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs = l.runs[:0]
	for _, r := range runs {
		l.runs = append(l.runs, r.Ref())
	}
}

// number returns the place of a run in the list, from 1, or 0.
func (l *shownList) number(run spawn.RunRef) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return 1 + slices.Index(l.runs, run)
}

// at returns the run in the place that a target names, if it is a number of the list.
func (l *shownList) at(target string) (spawn.RunRef, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, ok := listNumber(target)
	if !ok || n < 1 || n > len(l.runs) {
		return spawn.RunRef{}, false
	}
	return l.runs[n-1], true
}

// listNumber returns the number that a target is, written as a list writes it. A label that reads
// like one is none of the things that a target names.
func listNumber(target string) (n int, ok bool) {
	n, err := strconv.Atoi(target)
	return n, err == nil && strconv.Itoa(n) == target
}

// choose returns the runs that a target names: the one in a place of the list that was shown, those
// of selectRuns, or a run that later runs of its session have followed, by its id. runs are the
// present ones of the sub-agents.
func (h toolHost) choose(
	ctx context.Context, tool string, runs []RunInfo, target string, several bool,
) ([]RunInfo, error) {
	target = text.Line(target) // what cannot be seen does not make it another one
	if ref, ok := h.shown.at(target); ok {
		return h.chooseShown(ctx, tool, runs, target, ref)
	}
	chosen, err := selectRuns(tool, runs, target, several)
	if err == nil || target == "" {
		return chosen, err
	}
	for _, r := range runs {
		if !r.FollowUp {
			continue
		}
		ended, missing := h.find(ctx, spawn.RunRef{Session: r.Key, Run: RunID(target)})
		switch {
		case missing == nil:
			return []RunInfo{ended}, nil
		case !errors.Is(missing, ErrNotFound):
			return nil, missing
		}
	}
	return nil, err
}

// chooseShown returns the run that a list has shown as a number, whatever has followed it.
func (h toolHost) chooseShown(
	ctx context.Context, tool string, runs []RunInfo, number string, ref spawn.RunRef,
) ([]RunInfo, error) {
	for _, r := range runs {
		if r.Ref() == ref {
			return []RunInfo{r}, nil
		}
	}
	run, err := h.find(ctx, ref)
	if errors.Is(err, ErrNotFound) {
		err = newArgumentError(tool, "target", fmt.Sprintf(
			"number %s was run %s of %s, which is not on record any more; call subagents with the "+
				"action list again", number, ref.Run, ref.Session,
		))
	}
	return []RunInfo{run}, err
}

// find returns a run of a sub-agent of the session.
func (h toolHost) find(ctx context.Context, run spawn.RunRef) (RunInfo, error) {
	if h.turn != nil {
		return h.turn.spawn.Find(ctx, run)
	}
	root, err := h.session.tree(ctx)
	if err != nil {
		return RunInfo{}, err
	}
	return h.rt.sup.Find(ctx, root, run)
}

// selectRuns returns the runs that a target of a tool names: the id of a present run, a session
// key, a name, a label or what a list shows of it, or all. A name names one sub-agent, whatever
// another one has as its label.
func selectRuns(tool string, runs []RunInfo, target string, several bool) ([]RunInfo, error) {
	if target == "" {
		return nil, newArgumentError(tool, "target", "it is required")
	}
	if several && target == "all" {
		return runs, nil
	}
	if _, ok := listNumber(target); ok {
		return nil, newArgumentError(tool, "target", fmt.Sprintf(
			"no list of this turn has a number %s: call subagents with the action list first, or "+
				"take the run id", target,
		))
	}
	var found []RunInfo
	for _, r := range runs {
		if string(r.ID) == target || r.Key.String() == target || r.Name == target {
			return []RunInfo{r}, nil
		}
		if r.Label != "" && r.Label == text.Line(target) {
			found = append(found, r)
		}
	}
	if len(found) == 0 {
		found = slices.DeleteFunc(slices.Clone(runs), func(r RunInfo) bool {
			return r.Label == "" || text.Label(r.Label) != text.Line(target)
		})
	}
	switch len(found) {
	case 0:
		return nil, newArgumentError(
			tool, "target",
			fmt.Sprintf("there is no sub-agent %s of yours", text.Quote(target)),
		)
	case 1:
		return found, nil
	}
	return nil, newArgumentError(
		tool, "target",
		fmt.Sprintf("%d of your sub-agents are called %s; take the run id", len(found),
			text.Quote(target)),
	)
}

var sendSchema = json.RawMessage(`{"type":"object","properties":{` +
	`"target":{"type":"string","description":"a sub-agent: its taskName, session key, label, run id, or number in the list that this turn has shown; or the key of another session"},` +
	`"message":{"type":"string","description":"what it is told"}` +
	`},"required":["target","message"]}`)

// sendReply is what a model is told of a message that it has sent.
type sendReply struct {
	Status     string `json:"status"` // accepted
	SessionKey string `json:"sessionKey"`
	RunID      string `json:"runId,omitempty"`
	Note       string `json:"note"`
}

// send is the tool sessions_send.
func (h toolHost) send(ctx context.Context, c ToolCall) (string, error) {
	a, err := readArguments(toolSend, c.Args,
		"target", "message", "sessionKey", "session_key", "label")
	if err != nil {
		return "", err
	}
	target := a.text("target", "sessionKey", "session_key", "label")
	m := Incoming{ID: h.sendID(ctx, c), Text: a.text("message")}
	if target == "" {
		a.fail("target", "it is required")
	}
	if text.IsBlank(m.Text) {
		a.fail("message", "it is required")
	}
	if a.err != nil {
		return "", a.err
	}
	to, err := h.receiver(ctx, target)
	if err != nil {
		return "", err
	}
	if err = h.authorizeFor(policy.VerbSend, to); err == nil {
		var r Receipt
		if r, err = h.post(ctx, to, m); err == nil {
			return jsonReply(sendReply{
				Status: "accepted", SessionKey: r.Session.String(), RunID: string(r.Run),
				Note: sendNote(to, r),
			})
		}
	}
	if errors.Is(err, ErrStale) || errors.Is(err, spawn.ErrShutdown) || ctx.Err() != nil {
		return "", err // no model can do anything about it
	}
	if refusal, ok := errors.AsType[*policy.Refusal](err); ok {
		return jsonReply(refusalReply(refusal))
	}
	err = h.rt.orArchived(ctx, to.Key, err)
	return jsonReply(spawnReply{Status: "error", Error: sendError(to.Key, err)})
}

// sendID names a message of a model, so that a call that is repeated sends it once.
func (h toolHost) sendID(ctx context.Context, c ToolCall) string {
	place, _ := ctx.Value(placeKey{}).(string)
	if c.ID == "" && place == "" {
		return ""
	}
	sum := sha256.Sum256(c.Args)
	return h.spawnKey(h.token + place + "/" + shortID(c.ID) + "/" + hex.EncodeToString(sum[:16]))
}

// receiver returns the session that a model means: one below its own, or another one by its key.
func (h toolHost) receiver(ctx context.Context, target string) (to policy.Target, err error) {
	runs, err := h.runs(ctx)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return to, err
	}
	key, kerr := session.Parse(target)
	if kerr != nil {
		chosen, err := h.choose(ctx, toolSend, runs, target, false)
		if err != nil {
			return to, err
		}
		key = chosen[0].Key
	}
	to.Key = key
	info, err := h.below(ctx, key)
	switch {
	case err == nil:
		to.Ancestors = []session.Key{info.Parent, h.session.key, info.Root}
	case errors.Is(err, ErrNotFound): // policy says whether the session may be written to
		err = nil
	}
	return to, err
}

// below returns a sub-agent below the session of h. The error is ErrNotFound if it is not there.
func (h toolHost) below(ctx context.Context, key session.Key) (RunInfo, error) {
	if h.turn != nil {
		return h.turn.spawn.Find(ctx, spawn.RunRef{Session: key})
	}
	runs, err := h.session.Tree(ctx)
	if err != nil {
		return RunInfo{}, err
	}
	for _, r := range runs {
		if r.Key == key {
			return r, nil
		}
	}
	return RunInfo{}, ErrNotFound
}

// post sends a message of the model to a session.
func (h toolHost) post(ctx context.Context, to policy.Target, m Incoming) (r Receipt, err error) {
	opt := spawn.SendOptions{Announce: true, ByModel: true, Origin: h.origin(ctx)}
	if h.turn != nil && len(to.Ancestors) > 0 {
		r, err = h.turn.spawn.Send(ctx, to.Key, m, opt)
		return r, inOurWords(err)
	}
	if h.turn != nil {
		if err := h.turn.err(); err != nil {
			return r, err
		}
	}
	other := h.rt.Session(to.Key)
	root, err := other.receive(ctx, &m)
	if err != nil {
		return r, err
	}
	r, err = h.rt.sup.Send(ctx, root, h.session.key, to.Key, m, opt)
	return r, inOurWords(err)
}

// sendNote tells a model what becomes of its message.
func sendNote(to policy.Target, r Receipt) string {
	const comes = " What it reports comes to you automatically when it has ended, unless it has " +
		"nothing to say: do not poll for it."
	switch {
	case r.Existing:
		return "It had this message already, and was not told again."
	case len(to.Ancestors) == 0:
		return "It reads the message in its own conversation, and answers there, not here."
	case r.Began:
		return "It had ended. The message has begun another run of it, with its conversation so far." +
			comes
	}
	return "It is at work, and reads the message in its present run." + comes
}

// sendError tells a model why its message was not taken.
func sendError(key session.Key, err error) string {
	ended, below := errors.AsType[*spawn.EndedError](err)
	why := err.Error()
	switch {
	case errors.Is(err, ErrArchived):
		why = "it was archived some time after its end, and takes no messages any more; start " +
			"another sub-agent and give it what it must know"
	case below && ended.Ended.IsValid():
		why = "it has ended, and so has " + ended.Ended.String() + " above it, which would be told " +
			"of what comes of the message; send the message to that one instead"
	case errors.Is(err, ErrEnded):
		why = "it ended before it began to work, so that there is nothing to go on from; start " +
			"another sub-agent for the task"
	case errors.Is(err, spawn.ErrStopping):
		why = "it is being stopped; send the message again when it has ended"
	case errors.Is(err, ErrNotFound):
		why = "there is no such session"
	}
	return "session " + key.String() + ": " + why
}
