package policy

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/offshoot-sdk/offshoot/internal/text"
)

// The values of [Resolved.Source], the highest priority first.
const (
	SourceRequest  = "sessions_spawn"            // the spawn itself
	SourceAgent    = "agents.list[].subagents"   // the target agent's entry
	SourceDefaults = "agents.defaults.subagents" // the defaults
	SourceCaller   = "caller"                    // what the caller itself runs with
	SourceTarget   = "agents.list[].model"       // the target agent's own model, where the caller's is not known
)

// A Resolved value is one that several levels may set. It holds the value, the level that set it,
// and what was passed over on the way.
type Resolved[T any] struct {
	Value   T      `json:"value"`
	Source  string `json:"source,omitempty"`  // one of the Source constants; empty: no level says anything
	Warning string `json:"warning,omitempty"` // why a higher level was passed over
}

// String returns the value as text.
func (r Resolved[T]) String() string { return fmt.Sprint(r.Value) }

// resolveModel chooses the model of a child of agent a, which is nil if it is not configured.
func (r *Rules) resolveModel(c *Caller, q *Request, a *Agent) (Resolved[string], *Refusal) {
	configured := r.configuredModel(c, a)
	asked := strings.TrimSpace(q.Model)
	switch {
	case asked == "":
		return configured, nil
	case q.validModel(asked), asked == configured.Value:
		// What the child would run on anyway is valid to ask for, whatever else is.
		return Resolved[string]{Value: asked, Source: SourceRequest}, nil
	case q.Strict && !IsModelName(asked):
		return Resolved[string]{}, place{path: "Request.Model"}.refuse(RuleModel, asked,
			"the name of a model, without spaces and empty parts")
	case q.Strict:
		return Resolved[string]{}, place{path: "Config.Models.Valid"}.refuse(RuleModel, asked, "a valid model")
	}
	instead := "the Runner's default"
	if configured.Value != "" {
		instead = fmt.Sprintf("%q", configured.Value)
	}
	shown := text.Quote(asked)
	if len(asked) > text.MaxQuoted { // what masks a warning would not know the head of a secret
		shown = "of " + text.Count(len(asked), "byte", "bytes")
	}
	configured.Warning = fmt.Sprintf("model %s is not valid, used %s instead", shown, instead)
	return configured, nil
}

// configuredModel returns the model of a child whose request names none.
func (r *Rules) configuredModel(c *Caller, a *Agent) Resolved[string] {
	if a != nil {
		if m := strings.TrimSpace(a.Subagents.Model); m != "" {
			return Resolved[string]{Value: m, Source: SourceAgent}
		}
	}
	if m := strings.TrimSpace(r.Subagents.Model); m != "" {
		return Resolved[string]{Value: m, Source: SourceDefaults}
	}
	if m := strings.TrimSpace(c.Model); m != "" {
		return Resolved[string]{Value: m, Source: SourceCaller}
	}
	if a != nil {
		if m := strings.TrimSpace(a.Model); m != "" {
			return Resolved[string]{Value: m, Source: SourceTarget}
		}
	}
	return Resolved[string]{}
}

func (q *Request) validModel(m string) bool {
	return IsModelName(m) && (q.ValidModel == nil || q.ValidModel(m))
}

// IsModelName reports whether m can be the name of a model: at most 256 bytes of UTF-8 without
// spaces and characters that are not drawn, and with no empty part around a slash.
func IsModelName(m string) bool {
	if !text.IsLine(m, 256) {
		return false
	}
	if m[0] == '/' || m[len(m)-1] == '/' || strings.Contains(m, "//") {
		return false
	}
	return !strings.ContainsFunc(m, unicode.IsSpace)
}

// resolveThinking chooses the thinking level of a child of agent a. An unknown level in the request
// or the configuration is refused; the caller's own is taken unchecked.
func (r *Rules) resolveThinking(c *Caller, q *Request, a *Agent) (Resolved[string], *Refusal) {
	asked, source := q.Thinking, SourceRequest
	if strings.TrimSpace(asked) == "" && a != nil {
		asked, source = a.Subagents.Thinking, SourceAgent
	}
	if strings.TrimSpace(asked) == "" {
		asked, source = r.Subagents.Thinking, SourceDefaults
	}
	if strings.TrimSpace(asked) == "" {
		if c.Thinking == "" {
			return Resolved[string]{}, nil
		}
		return Resolved[string]{Value: c.Thinking, Source: SourceCaller}, nil
	}
	level, ok := ParseThinking(asked)
	if ok {
		return Resolved[string]{Value: level, Source: source}, nil
	}
	at := q.place("thinking")
	switch source {
	case SourceAgent:
		at = r.subagentsPlace(a.ID, true).dot("Thinking", "thinking")
	case SourceDefaults:
		at = defaultsPlace.dot("Thinking", "thinking")
	}
	return Resolved[string]{}, at.refuse(RuleThinking, asked, strings.Join(thinkingLevels[:], ", "))
}

// thinkingLevels are the canonical levels, in ascending order apart from the last, which leaves the
// amount to the model.
var thinkingLevels = [...]string{"off", "minimal", "low", "medium", "high", "xhigh", "adaptive"}

// ThinkingLevels returns the canonical thinking levels.
func ThinkingLevels() []string { return append([]string(nil), thinkingLevels[:]...) }

// ParseThinking returns the canonical level that s means, such as "medium" for "Think-Harder", and
// whether it means one. Case, space,
// - and _ are ignored.
func ParseThinking(s string) (level string, ok bool) {
	switch thinkingReplacer.Replace(strings.ToLower(s)) {
	case "off":
		return "off", true
	case "minimal", "min", "think":
		return "minimal", true
	case "low", "on", "enable", "enabled", "thinkhard":
		return "low", true
	case "medium", "mid", "med", "thinkharder":
		return "medium", true
	case "high", "ultra", "ultrathink", "thinkhardest", "highest", "max":
		return "high", true
	case "xhigh", "extrahigh":
		return "xhigh", true
	case "adaptive", "auto":
		return "adaptive", true
	}
	return "", false
}

var thinkingReplacer = strings.NewReplacer(" ", "", "\t", "", "\n", "", "\r", "", "-", "", "_", "")

// place returns the place of what is asked for: a parameter of the tool if a model asks, and else
// the field of the Request.
func (q *Request) place(field string) place {
	if !q.ByModel {
		return requestPlace(title(field))
	}
	if field == "timeout" {
		field = "runTimeoutSeconds"
	}
	return place{path: spawnPath + "." + field}
}

// title returns a word of ASCII with a capital.
func title(word string) string { return strings.ToUpper(word[:1]) + word[1:] }

// resolveTimeout chooses how long a run may take: zero means without a limit. What is over
// MaxTimeout is that, with a warning if it was asked for, which Strict makes a refusal.
func (r *Rules) resolveTimeout(q *Request) (Resolved[time.Duration], *Refusal) {
	d, refusal := r.askedTimeout(q)
	most := r.Subagents.MaxTimeout
	if refusal != nil || most <= 0 || d.Value > 0 && d.Value <= most {
		return d, refusal
	}
	if d.Source == SourceRequest {
		asked := "none"
		if d.Value > 0 {
			asked = d.Value.String()
		}
		if q.Strict {
			return Resolved[time.Duration]{}, maxTimeoutPlace.refuse(
				RuleTimeout, asked, "up to "+most.String())
		}
		d.Warning = fmt.Sprintf("timeout %s is over %s, the longest that is allowed, and is that",
			asked, most)
	}
	d.Value, d.Source = most, SourceDefaults
	return d, nil
}

// askedTimeout returns the timeout that the request asks for, else that of the defaults.
func (r *Rules) askedTimeout(q *Request) (Resolved[time.Duration], *Refusal) {
	switch d := q.Timeout; {
	case d == Off:
		return Resolved[time.Duration]{Source: SourceRequest}, nil
	case d < 0:
		return Resolved[time.Duration]{}, q.place("timeout").refuse(
			RuleTimeout, d.String(), "0s or more, or policy.Off")
	case d > 0:
		return Resolved[time.Duration]{Value: d, Source: SourceRequest}, nil
	}
	switch d := r.Subagents.Timeout; {
	case d > 0:
		return Resolved[time.Duration]{Value: d, Source: SourceDefaults}, nil
	case d < 0:
		return Resolved[time.Duration]{Source: SourceDefaults}, nil
	}
	return Resolved[time.Duration]{}, nil
}

// resolveAnnounce chooses where the announcement's text comes from.
func (r *Rules) resolveAnnounce(q *Request, a *Agent) AnnounceStep {
	step := q.Announce
	if step == AnnounceInherit && a != nil {
		step = a.Subagents.Announce
	}
	if step == AnnounceInherit {
		step = r.Subagents.Announce
	}
	if step == AnnounceInherit {
		step = AnnounceReply
	}
	return step
}
