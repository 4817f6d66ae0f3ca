package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/announce"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/internal/text"
	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// An ExternalRuntime runs sub-agents by a program of its own, such as a coding agent that is driven
// over stdio. What it does is not held by a sandbox of the Rules, so that neither a session in a
// sandbox nor one that has to be in one gets it. All else is as for other sub-agents: admission,
// limits, slots, timeouts, budgets, announcements, stops, threads and archives.
type ExternalRuntime struct {
	// Runner runs the turns. Where the program keeps the conversation, [Turn.SetState] keeps its id
	// for it, and [Turn.Input] is what it is to be told. See docs/runtimes.md.
	Runner Runner
	// Agents are the ids of the agents whose sub-agents may run in it, in any letter case. Nil: of
	// all.
	Agents []string
	// Guidance tells a model in a sentence what the runtime is for. Empty: its name has to say it.
	Guidance string
}

// nativeRuntime is the runtime of sub-agents that ask for none.
const nativeRuntime = "subagent"

// runsAgent reports whether sub-agents of an agent may run in x.
func (x *ExternalRuntime) runsAgent(id string) bool {
	return x.Agents == nil || slices.ContainsFunc(x.Agents, func(a string) bool {
		return strings.EqualFold(strings.TrimSpace(a), id)
	})
}

// externalRuntime returns the runtime of a name, in any letter case, with the name in the Config.
func (c *Config) externalRuntime(name string) (x ExternalRuntime, as string, ok bool) {
	as, ok = keyInAnyCase(c.Runners.Runtimes, strings.TrimSpace(name))
	return c.Runners.Runtimes[as], as, ok
}

// runtimeNames are the names of the external runtimes, sorted.
func (c *Config) runtimeNames() []string { return slices.Sorted(maps.Keys(c.Runners.Runtimes)) }

func runtimeField(name string) string { return fmt.Sprintf("Runners.Runtimes[%q]", name) }

// external returns the name of the runtime that the task asks for, "" for none of its own.
func (t *Task) external() string {
	if name := strings.ToLower(strings.TrimSpace(t.Runtime)); name != nativeRuntime {
		return name
	}
	return ""
}

// runtimeFor returns the name in the Config of the external runtime of a task, "" for none. The
// error is an *InputError for what no task can ask for, or a *policy.Refusal.
func (c *Config) runtimeFor(t *Task, requester session.Key) (string, error) {
	name := t.external()
	switch {
	case name == "" && t.Stream:
		return "", &InputError{
			Field: "Task.Stream", Reason: "it is for an external runtime, and Task.Runtime names none",
		}
	case name == "":
		return "", nil
	}
	x, as, ok := c.externalRuntime(name)
	refuse := func(field, limit string) error {
		return &policy.Refusal{
			Rule: policy.RuleRuntime, Asked: strings.TrimSpace(t.Runtime), Limit: limit,
			Field: "Config." + field, Path: "Task.Runtime",
		}
	}
	agent := t.Agent
	if strings.TrimSpace(agent) == "" {
		agent = c.Rules.AgentOf(requester)
	}
	switch {
	case !ok:
		return "", refuse("Runners.Runtimes",
			strings.Join(append([]string{nativeRuntime}, c.runtimeNames()...), ", "))
	case !x.runsAgent(strings.TrimSpace(agent)):
		return "", refuse(runtimeField(as)+".Agents", strings.Join(x.Agents, ", "))
	}
	return as, nil
}

// runnerOf returns the Runner of a turn, and its field in the Config. It is nil if the Config has
// none for it.
func (c *Config) runnerOf(t *Turn) (r Runner, field string) {
	if t.Runtime == "" {
		return c.runner(t.Session.Key)
	}
	x, as, ok := c.externalRuntime(t.Runtime)
	if !ok {
		as = t.Runtime
	}
	return x.Runner, runtimeField(as) + ".Runner"
}

// runtimeVariant returns what tells a task from the same one in another runtime.
func (t *Task) runtimeVariant() string {
	if name := t.external(); name != "" {
		return fmt.Sprintf(" runtime %q stream %t", name, t.Stream)
	}
	return ""
}

// withRuntimes returns the schema of sessions_spawn with the parameters of external runtimes, if
// there are any of such names.
func withRuntimes(schema json.RawMessage, named []string) json.RawMessage {
	if len(named) == 0 {
		return schema
	}
	names, err := json.Marshal(append([]string{nativeRuntime}, named...))
	if err != nil {
		return schema // names are text
	}
	const before = `"sandbox":{"type":"string"`
	return bytes.Replace(schema, []byte(before), []byte(`"runtime":{"type":"string","enum":`+
		string(names)+`,"description":"who runs it: subagent (default), or an external program"},`+
		`"streamTo":{"type":"string","enum":["parent"],"description":"with an external runtime: `+
		`what it says as it works comes to you with your next turn"},`+before), 1)
}

// runtimesID is the id of the section of a prompt about external runtimes.
const runtimesID = "external-runtimes"

// addRuntimes adds what a session that may spawn is told of the external runtimes: how to use them,
// that none is for the agents that it may start, or that a sandbox has none.
func (c *Config) addRuntimes(in *agentctx.Input, tools []string, sandboxed bool) {
	if len(c.Runners.Runtimes) == 0 || !slices.Contains(tools, toolSpawn) {
		return
	}
	in.Extra = append(slices.Clip(in.Extra), agentctx.Section{
		ID: runtimesID, Class: agentctx.ClassPerSession, Minimal: true,
		Text: "## External Runtimes\n" + c.runtimesText(policy.Caller{
			Key: in.Session, Role: in.Lineage.Role, Depth: in.Lineage.Depth, Sandboxed: sandboxed,
		}), Source: "agent",
	})
}

// runtimesFor returns the names of the external runtimes in which a session may start a sub-agent,
// sorted, and the agents that it may start in each. A spawn is admitted by the same rules.
func (c *Config) runtimesFor(caller policy.Caller) (names []string, agents [][]string) {
	if len(c.Runners.Runtimes) == 0 {
		return nil, nil
	}
	targets := c.Rules.RuntimeTargets(caller)
	for _, name := range c.runtimeNames() {
		x := c.Runners.Runtimes[name]
		mine := slices.DeleteFunc(slices.Clone(targets), func(id string) bool {
			return !x.runsAgent(id)
		})
		if len(mine) > 0 {
			names, agents = append(names, name), append(agents, mine)
		}
	}
	return names, agents
}

func (c *Config) runtimesText(caller policy.Caller) string {
	if caller.Sandboxed {
		return "You are in a sandbox, which does not hold external programs: sessions_spawn has " +
			"only the runtime " + nativeRuntime + " here."
	}
	names, agents := c.runtimesFor(caller)
	all := len(c.Rules.Targets(caller))
	var lines []string
	for i, name := range names {
		x := c.Runners.Runtimes[name]
		line := "- " + name
		if x.Guidance != "" {
			line += ": " + text.Line(x.Guidance)
		}
		if x.Agents != nil || len(agents[i]) < all {
			line += " (agentId: " + strings.Join(agents[i], ", ") + ")"
		}
		lines = append(lines, line)
	}
	if len(lines) == 0 {
		return "No external runtime is for the agents that you may start: sessions_spawn has only " +
			"the runtime " + nativeRuntime + " here."
	}
	return "When a person wants work done by one of these programs, call sessions_spawn with its " +
		"name as runtime; do not start the program by yourself:\n" + strings.Join(lines, "\n")
}

// runtimes adds the mistakes of the external runtimes.
func (c *checkup) runtimes(cfg *Config) {
	seen := make(map[string]bool)
	for _, name := range cfg.runtimeNames() {
		at, x := runtimeField(name), cfg.Runners.Runtimes[name]
		folded := strings.ToLower(name)
		switch {
		case !validToolName(name):
			c.bad(at, "the name %s is not of letters, digits, _ and -", text.Quote(name))
		case folded == nativeRuntime:
			c.bad(at, "the name is that of the runtime of all other sub-agents")
		case seen[folded]:
			c.bad(at, "the name is there twice, in another letter case")
		}
		seen[folded] = true
		c.runner(at+".Runner", x.Runner, "it is nil")
		c.agentIDs(cfg, at+".Agents", slices.Clone(x.Agents))
	}
}

// The times and sizes of a relay.
const (
	relayPause = 2500 * time.Millisecond // what was said is passed on after so long
	relayRunes = 220                     // or when there is so much; no more is passed on at once
	relayBytes = 4000                    // of what was said, the last are kept
	relayStall = time.Minute             // a program that is silent so long has stalled
	relayLife  = 6 * time.Hour           // what is said later is not passed on
	// relaySlower is after how many updates the pause doubles: a run has [spawn.MaxMilestones], and
	// some are left for what the Runner reports.
	relaySlower = 10
	relayMost   = spawn.MaxMilestones - 10
)

// A relayState decides what the requester is told of what a program says as it works. It knows no
// clock.
type relayState struct {
	redactor *announce.Redactor

	began   time.Time
	said    string    // what was not passed on, its end
	since   time.Time // when said was empty before; of use while it is not empty
	heard   time.Time // when something was said last
	updates int
	stalled bool
	over    bool
}

// hear takes what the program says.
func (r *relayState) hear(now time.Time, piece string) (tell []string) {
	if r.over || piece == "" {
		return nil
	}
	if r.stalled {
		r.stalled = false
		tell = r.add(tell, "It works again.")
	}
	if r.said == "" {
		r.since = now
	}
	r.heard, r.said = now, r.said+piece
	if cut := len(r.said) - relayBytes; cut > 0 {
		for cut < len(r.said) && !utf8.RuneStart(r.said[cut]) {
			cut++
		}
		r.said = r.said[cut:]
	}
	enough := utf8.RuneCountInString(r.said) >= relayRunes || strings.Contains(r.said, "\n\n")
	if enough && r.updates < relaySlower {
		return r.flush(tell)
	}
	return append(tell, r.tick(now)...)
}

// tick passes on what is due.
func (r *relayState) tick(now time.Time) (tell []string) {
	switch {
	case r.over:
	case now.Sub(r.began) >= relayLife:
		tell = r.add(r.flush(nil), "It has worked for six hours; nothing more of what it says is "+
			"passed on. Its result still comes.")
		r.over = true
	case r.said != "" && now.Sub(r.since) >= r.pause():
		tell = r.flush(nil)
	case !r.stalled && now.Sub(r.heard) >= relayStall:
		r.stalled = true
		tell = r.add(nil, "It has said nothing for a minute. It may be at work, or wait for input.")
	}
	return tell
}

// pause returns how long what was said waits. It grows with what was passed on.
func (r *relayState) pause() time.Duration { return relayPause << min(r.updates/relaySlower, 8) }

// next returns when something is due; zero for never.
func (r *relayState) next() time.Time {
	if r.over {
		return time.Time{}
	}
	due := r.began.Add(relayLife)
	if at := r.since.Add(r.pause()); r.said != "" && at.Before(due) {
		due = at
	}
	if at := r.heard.Add(relayStall); !r.stalled && at.Before(due) {
		due = at
	}
	return due
}

// flush passes on the end of what was said, as people may see it.
func (r *relayState) flush(tell []string) []string {
	shown, visible := announce.Visible(r.said)
	if r.said = ""; !visible {
		return tell
	}
	shown = r.redactor.Redact(text.Line(r.redactor.Redact(shown)))
	if n := utf8.RuneCountInString(shown); n > relayRunes {
		shown = "... " + string([]rune(shown)[n-relayRunes:])
	}
	return r.add(tell, shown)
}

// add adds an update, of which there are not more than a run can report.
func (r *relayState) add(tell []string, update string) []string {
	if r.updates++; r.updates >= relayMost {
		r.over = true
	}
	if text.IsBlank(update) {
		return tell
	}
	return append(tell, update)
}

// A relay passes on to the requester of a run what its program says in one turn: as milestones, of
// which the requester finds the newest.
type relay struct {
	turn *Turn
	ctx  context.Context //nolint:containedctx // of the turn
	end  context.CancelFunc
	done chan struct{} // closed when its goroutine has ended
	wake chan struct{} // has an item when there is something to do

	mu    sync.Mutex
	state relayState
	tell  []string
}

// startRelay starts a relay. The caller calls close.
func startRelay(ctx context.Context, t *Turn) *relay {
	now := time.Now()
	r := &relay{
		turn: t, done: make(chan struct{}), wake: make(chan struct{}, 1),
		state: relayState{redactor: t.rt.redactor, began: now, heard: now},
	}
	r.ctx, r.end = context.WithCancel(ctx)
	go r.run()
	return r
}

// hear takes what the program says. It does not wait.
func (r *relay) hear(piece string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	r.tell = append(r.tell, r.state.hear(time.Now(), piece)...)
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// take returns what is to be told now, and when to look again.
func (r *relay) take() (tell []string, next time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	tell = append(r.tell, r.state.tick(time.Now())...)
	r.tell = nil
	return tell, r.state.next()
}

func (r *relay) run() {
	defer close(r.done)
	for {
		tell, next := r.take()
		for _, update := range tell {
			if r.turn.Report(r.ctx, Progress{Text: update, Milestone: true}) != nil {
				return // the turn ends, or has reported as much as it may
			}
		}
		var due <-chan time.Time
		timer := time.NewTimer(time.Until(next))
		if !next.IsZero() {
			due = timer.C
		}
		select {
		case <-r.ctx.Done():
		case <-r.wake:
		case <-due:
		}
		timer.Stop()
		if r.ctx.Err() != nil {
			return
		}
	}
}

// close ends the relay and waits for it. What was not passed on is in the result of the turn.
func (r *relay) close() {
	if r != nil {
		r.end()
		<-r.done
	}
}
