package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/offshoot-sdk/offshoot/agent/internal/target"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

var subagentsSchema = json.RawMessage(`{"type":"object","properties":{` +
	`"action":{"type":"string","enum":["list","info","log","kill","steer","send"],"description":"default: list. log: its last messages; ` +
	`steer: tell it something while it works; send: write to it, also when it has ended, as sessions_send does"},` +
	`"target":{"type":"string","description":"a sub-agent: number or #number in the list that you were shown last, run id, taskName, label, or the beginning of one of these; session key or id; last: the newest; for kill also all"},` +
	`"recentMinutes":{"type":"integer","minimum":0,"maximum":1440,"description":"for list: how long ago those that it shows have ended at most; 0 and default: 30"},` +
	`"message":{"type":"string","description":"for steer and send: at most 4000 characters, one in 2 seconds"},` +
	`"timeoutSeconds":{"type":"number","minimum":0,"maximum":30,"description":"for send: wait so long for the answer; default: do not wait"},` +
	`"limit":{"type":"integer","minimum":1,"maximum":200,"description":"for log: messages; default: 20"},` +
	`"includeTools":{"type":"boolean","description":"for log: show tool calls and their results"}` +
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
	Missed     int      `json:"steersMissed,omitempty"` // that it has not read at its end
	Children   int      `json:"activeChildren,omitempty"`
	Model      string   `json:"model,omitempty"`
	Error      string   `json:"error,omitempty"`
	Usage      *Usage   `json:"usage,omitempty"`
	Tools      []string `json:"tools,omitempty"`

	Conversations []session.Route `json:"conversations,omitempty"`
}

func (h toolHost) subagentLine(n int, r RunInfo, whole bool) subagentLine {
	shown := h.rt.toModels
	l := subagentLine{
		Number: n, RunID: string(r.ID), SessionKey: r.Key.String(), TaskName: shown(r.Name),
		Label: h.rt.lineToModels(r.Label), Agent: r.Agent, Status: r.Status.String(),
		Turns: r.Turns, Missed: r.Missed, Children: r.Children, Error: text.Line(shown(r.Error)),
		Conversations: r.Conversations,
	}
	if d := r.Elapsed(time.Now()); d > 0 {
		l.Runtime = d.Round(time.Second).String()
	}
	if whole {
		l.Task = h.rt.lineToModels(r.Task)
		l.Model, l.Tools = text.Line(shown(r.Model.Resolved)), r.Tools
		l.Usage = &r.Result.Usage
		return l
	}
	l.Label = text.Label(l.Label)
	return l
}

func (h toolHost) subagents(ctx context.Context, c ToolCall) (string, error) {
	a, err := readArguments(toolSubagents, c.Args, "action", "target", "message",
		"recentMinutes", "timeoutSeconds", "limit", "includeTools")
	if err != nil {
		return "", err
	}
	action := a.word("action", "list", "info", "log", "kill", "steer", "send")
	named, message := a.text("target"), a.text("message")
	recent := a.minutes(maxRecentMinutes, "recentMinutes")
	wait, limit := a.sendTimeout(), a.count(logShown, maxLogShown, "limit")
	includeTools := a.flag("includeTools")
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
		list := h.rt.listRuns(h.viewer(), runs, recent)
		lines := make([]subagentLine, len(list.Runs))
		for i, r := range list.Runs {
			lines[i] = h.subagentLine(i+1, r, false)
		}
		return jsonReply(map[string]any{
			"subagents": lines, "active": list.Active, "total": list.Total,
		})
	}
	chosen, err := h.choose(ctx, toolSubagents, "target", runs, named, action == "kill")
	if err != nil {
		return "", err
	}
	if action == "info" {
		if err := h.authorize(ctx, policy.VerbStatus, chosen[0]); err != nil {
			return "", err
		}
		n := h.rt.shown.Number(h.viewer(), chosen[0].Ref(), time.Now())
		return jsonReply(h.subagentLine(n, chosen[0], true))
	}
	switch action {
	case "log":
		target := sessionName{toolSubagents, "target", named}
		return h.log(ctx, target, chosen[0], limit, includeTools)
	case "steer", "send":
		if err := checkSent(toolSubagents, message); err != nil {
			return "", err
		}
	}
	if action == "send" {
		to, err := h.target(ctx, chosen[0].Key)
		if err != nil {
			return "", err
		}
		return h.sendPaced(ctx, to, Incoming{ID: h.sendID(ctx, c), Text: message}, wait)
	}
	return h.runAction(ctx, action, message, chosen, laterRun(runs, chosen))
}

// Bounds of a list of sub-agents, and of the log of one.
const (
	maxRecentMinutes = 24 * 60
	logShown         = 20
	maxLogShown      = 200
)

// log answers with the last messages of a sub-agent.
func (h toolHost) log(
	ctx context.Context, named sessionName, r RunInfo, n int, tools bool,
) (string, error) {
	if err := h.authorize(ctx, policy.VerbHistory, r); err != nil {
		return "", err
	}
	q := HistoryQuery{Last: n}
	page, err := h.readHistory(ctx, h.rt.sessionIn(r.Key, r.Root), q, tools)
	if err != nil {
		return "", h.unseen(ctx, named, r.Key, err)
	}
	return jsonReply(map[string]any{
		"runId": r.ID, "sessionKey": r.Key.String(), "status": r.Status.String(),
		"messages": page.Lines,
	})
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
		if err := h.authorize(ctx, actionVerbs[action], r); err != nil {
			return "", err
		}
	}
	if action == "steer" {
		if later.ID != "" {
			return "", &toldError{"agent: " + followedNote(chosen[0], later), ErrEnded}
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
			failed = append(failed, h.told(toolSubagents, err))
			continue
		}
		stopped = append(stopped, string(r.ID))
	}
	if len(failed) > 0 {
		all := errors.Join(failed...)
		return "", &toldError{all.Error(), all}
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
func (h toolHost) authorize(ctx context.Context, v policy.Verb, r RunInfo) error {
	above := []session.Key{r.Parent, h.session.key, r.Root} // it is in the list of h
	return h.authorizeFor(ctx, v, policy.Target{Key: r.Key, Ancestors: above})
}

// authorizeFor asks policy whether the session may do something with another.
func (h toolHost) authorizeFor(ctx context.Context, v policy.Verb, to policy.Target) error {
	c, rules, err := h.caller(ctx)
	if err != nil {
		return err
	}
	return inOurWords(rules.Authorize(c, v, to))
}

// A TargetQuery says among which sub-agents of a session a target is looked for, and for whom. The
// zero TargetQuery is what the tools of the session's own model look among.
type TargetQuery struct {
	// Viewer is the person who reads the list and names what is in it, such as the id that the
	// channel gives. Each has numbers of their own in a session. Empty: the session's model.
	Viewer string
	// Tree takes in the sub-agents of sub-agents.
	Tree bool
	// Many has "all" and "*" name every sub-agent. Otherwise they are an error.
	Many bool
	// Recent is how long ago a run has ended at most that is in the list. Zero is 30 minutes; less
	// than a minute is a minute, and more than a day is a day.
	Recent time.Duration
}

// A RunList is what a viewer is shown of the sub-agents of a session. The number of a run is its
// place in Runs, counted from 1.
type RunList struct {
	// Runs are those that have not ended, or whose own sub-agents have not, the newest first, and
	// then those that have ended of late, the newest first.
	Runs []RunInfo
	// Active is how many of the Runs have not ended, or have sub-agents that have not. They are the
	// first.
	Active int
	// Total counts the sub-agents on record, those that ended before that too.
	Total int
}

// A TargetError is a target that does not name what it should. It is [ErrNotFound] unless it may
// mean several sub-agents.
type TargetError struct {
	Target string // at most 512 bytes of it
	Reason string // one line; of an ambiguous target, it describes at most ten Candidates
	// Candidates are the sub-agents that an ambiguous target may mean. Empty: it means none.
	Candidates []RunInfo
	// Numbers are the places of the Candidates in the list that the viewer was shown last, or else
	// in that of now, counted from 1. One that is not in it has 0.
	Numbers []int
}

func (e *TargetError) Error() string {
	return "agent: target " + text.Quote(e.Target) + ": " + e.Reason
}

// Is reports whether target is ErrNotFound and the TargetError has no candidates.
func (e *TargetError) Is(target error) bool {
	return target == ErrNotFound && len(e.Candidates) == 0
}

// ListRuns returns the sub-agents of the session as they are shown to the viewer of the query, and
// keeps for half an hour which number each has there: see [Session.FindTarget]. It does what the
// action list of the tool subagents does, for programs with commands of their own. A top-level
// session that never was has none. The errors are those of [Session.Runs].
func (s *Session) ListRuns(ctx context.Context, q TargetQuery) (RunList, error) {
	runs, err := s.targets(ctx, q)
	if err != nil {
		return RunList{}, err
	}
	return s.rt.listRuns(s.viewer(q), runs, q.Recent), nil
}

// FindTarget returns the sub-agents of the session that a person or a model means by a target. It
// is what the tools subagents and sessions_send use. The first of these that names a sub-agent
// decides; letter case does not matter in words, names and labels:
//
//   - A number, or # and a number: the run that had it in the list that the viewer was shown last
//     with [Session.ListRuns] or by a tool, whatever came after it. Half an hour later, and where
//     none was shown, that is the list of now.
//   - last: the newest run. all or *: all of them, if the query has Many.
//   - The key of a session, or the id of its present run.
//   - A [Task].Name, the whole label, or what lists show of that: at most 48 characters, of the
//     task if there is no label.
//   - The id of an earlier run that is on record, or the session id.
//   - The beginning of a name or a label, or at least 4 characters of that of a run id; 8 if they
//     are digits alone.
//
// What cannot be seen of a target does not count. The runs that are no longer in the list because
// they have ended long ago are found by all but a number. The error is a *[TargetError], or one of
// [Session.Runs].
func (s *Session) FindTarget(ctx context.Context, target string, q TargetQuery) ([]RunInfo, error) {
	runs, err := s.targets(ctx, q)
	if err != nil {
		return nil, err
	}
	return s.rt.findTarget(s.viewer(q), runs, target, q, func(ref spawn.RunRef) (RunInfo, error) {
		root, err := s.tree(ctx)
		if err != nil {
			return RunInfo{}, err
		}
		return s.rt.sup.Find(ctx, root, ref)
	})
}

// targets returns the runs among which a target is looked for.
func (s *Session) targets(ctx context.Context, q TargetQuery) ([]RunInfo, error) {
	runs, err := s.runs(ctx, q.Tree)
	if !s.key.IsSubagent() && errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	return runs, err
}

func (s *Session) viewer(q TargetQuery) target.Viewer {
	return target.Viewer{Session: s.key, Name: shortID(q.Viewer)}
}

// listRuns returns the list of runs that a viewer is shown, and keeps its numbers.
func (rt *Runtime) listRuns(to target.Viewer, runs []RunInfo, recent time.Duration) RunList {
	now := time.Now()
	l := RunList{Total: len(runs)}
	l.Runs, l.Active = target.List(runs, now, target.Window(recent))
	rt.shown.Show(to, target.Refs(l.Runs), now)
	return l
}

// findTarget returns those of the runs that a viewer means by a target.
func (rt *Runtime) findTarget(
	by target.Viewer, runs []RunInfo, named string, q TargetQuery,
	earlier func(spawn.RunRef) (RunInfo, error),
) ([]RunInfo, error) {
	now := time.Now()
	numbers, shown := rt.shown.Of(by, now)
	if !shown {
		list, _ := target.List(runs, now, target.Window(q.Recent))
		numbers = target.Refs(list)
	}
	search := target.Search{
		Runs: runs, List: numbers, Many: q.Many, Earlier: earlier,
		Mask: rt.lineToModels,
	}
	found, err := search.Find(named)
	if fault, ok := errors.AsType[*target.FindError](err); ok {
		bad := &TargetError{
			Target: text.Cut(rt.whole(fault.Target), target.MaxTarget),
			Reason: fault.Reason, Candidates: fault.Candidates,
		}
		for i := range bad.Candidates {
			bad.Numbers = append(bad.Numbers, 1+slices.Index(numbers, bad.Candidates[i].Ref()))
		}
		return nil, bad
	}
	return found, err
}

// choose returns the runs that a target of a tool names. runs are the present ones of the
// sub-agents.
func (h toolHost) choose(
	ctx context.Context, tool, argument string, runs []RunInfo, named string, several bool,
) ([]RunInfo, error) {
	if named == "" {
		return nil, newArgumentError(tool, argument, "it is required")
	}
	chosen, err := h.rt.findTarget(h.viewer(), runs, named, TargetQuery{Many: several},
		func(ref spawn.RunRef) (RunInfo, error) { return h.find(ctx, ref) })
	if bad, ok := errors.AsType[*TargetError](err); ok {
		arg := newArgumentError(tool, argument, h.rt.quote(named)+": "+bad.Reason)
		arg.Err = bad
		return nil, arg
	}
	return chosen, err
}

// viewer returns what the lists of the session's model are kept under.
func (h toolHost) viewer() target.Viewer { return h.session.viewer(TargetQuery{}) }

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
