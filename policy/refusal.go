package policy

import (
	"fmt"
	"strings"

	"github.com/offshoot-sdk/offshoot/internal/text"
)

// A Rule is the name of a reason to refuse. The names are stable: they are what JSON holds.
type Rule string

// The rules: first those of [Rules.Admit] in the order of its checks, then those of
// [Rules.Authorize] alone, and last that of [Rules.Withheld].
const (
	RuleAgentID   Rule = "agentId"             // the id asked for cannot be that of an agent
	RuleCaller    Rule = "caller"              // the caller's record is missing or contradicts its key
	RuleDepth     Rule = "maxSpawnDepth"       // the tree would become too deep
	RuleRole      Rule = "role"                // the caller was made as a leaf, and stays one
	RuleChildren  Rule = "maxChildrenPerAgent" // the caller has too many active children
	RuleSpawns    Rule = "maxSpawnsPerRun"     // the caller has spawned too many children in its life
	RuleTreeRuns  Rule = "maxRunsPerTree"      // the tree has had too many runs
	RuleRequest   Rule = "maxRunsPerRequest"   // models have spawned too many runs for one request
	RuleRequireID Rule = "requireAgentId"      // the spawn must name its agent
	RuleAgents    Rule = "allowAgents"         // the caller may not spawn this agent
	RuleSandbox   Rule = "sandbox"             // the child would run outside a sandbox
	RuleTarget    Rule = "agents.list"         // the agent is not configured, allowed or not
	RuleRuntime   Rule = "runtime"             // the external runtime is not for this child
	RuleHistory   Rule = "shareHistory"        // the conversation is not for other agents
	RuleBlocked   Rule = "blocked"             // too many completions could not be delivered
	RuleBudget    Rule = "budget"              // nothing is left to spend, of the tree or the request
	RuleThinking  Rule = "thinking"            // the level is unknown
	RuleModel     Rule = "model"               // the model is not valid, and nothing else was wanted
	RuleTimeout   Rule = "timeout"             // the timeout is negative
	RuleTools     Rule = "tools"               // the child cannot have the tools asked for
	// RuleAttachments: models may not attach files to what they spawn.
	RuleAttachments Rule = "attachments"

	RuleVisibility Rule = "visibility" // the caller may not see the session
	RuleControl    Rule = "control"    // the session is not below the caller

	// RuleSender: a person for whom the turn works may not use the tool, see [Rules.Withheld].
	RuleSender Rule = "sender"
)

// String returns the name, such as "maxSpawnDepth".
func (r Rule) String() string { return string(r) }

// A Refusal is the error of [Rules.Admit] and [Rules.Authorize]. It says which rule refused, what
// was asked, what is allowed, and where that is set: the Go path first, and the configuration path
// beside it.
//
// errors.AsType[*policy.Refusal](err) finds the refusal in an error that wraps it, and
// errors.Is(err, &policy.Refusal{Rule: policy.RuleDepth}) reports whether that rule refused.
type Refusal struct {
	Op    string `json:"op,omitempty"` // what was refused, a [Verb]'s word; empty: a spawn
	Rule  Rule   `json:"rule"`
	Asked string `json:"asked"` // "ops", "2"
	Limit string `json:"limit"` // "research", "1"
	// Field is where a program allows it: "Rules.Subagents.MaxSpawnDepth". It is empty for what is
	// not a field of the Rules.
	Field string `json:"field,omitempty"`
	// Path is the place of the same value in the JSON configuration:
	// "agents.defaults.subagents.maxSpawnDepth". For what is not in the Rules it is where that was
	// said, such as "Request.Timeout". It is empty for a limit that no configuration sets.
	Path string `json:"path"`

	// Removed says of each tool that was asked for which rule removed it. It is set for [RuleTools]
	// and [RuleSender] only.
	Removed []ToolVerdict `json:"removed,omitempty"`
}

// Error returns the refusal as one sentence, and one more for each of the first 20 tools that were
// removed.
func (r *Refusal) Error() string {
	op := r.Op
	if op == "" {
		op = "spawn"
	}
	var b strings.Builder
	what := text.Quote(r.Asked)
	if r.Rule == RuleTarget {
		what += ", which is not configured"
	}
	fmt.Fprintf(&b, "policy: %s refused by %s: asked %s, allowed %s", op, r.Rule, what,
		text.Quote(r.Limit))
	if at := (place{r.Field, r.Path}); at != (place{}) {
		b.WriteString(", set at " + at.String())
	}
	if len(r.Removed) > 0 {
		b.WriteString("; " + text.List(r.Removed, "; ", ToolVerdict.String))
	}
	return b.String()
}

// Masked returns a copy whose Asked is what mask returns of it. Error cuts a long Asked, so that
// what masks its text would not know a secret of which only the head is there. A nil mask changes
// nothing.
func (r *Refusal) Masked(mask func(string) string) *Refusal {
	masked := *r
	if mask != nil {
		masked.Asked = mask(r.Asked)
	}
	return &masked
}

// Is reports whether target is a [*Refusal] with the same Rule, and with the same Op if it has one.
// The other fields of target are not compared. A target without a Rule matches nothing.
func (r *Refusal) Is(target error) bool {
	t, ok := target.(*Refusal)
	if !ok || t == nil || r == nil {
		return false
	}
	return t.Rule != "" && t.Rule == r.Rule && (t.Op == "" || t.Op == r.Op)
}
