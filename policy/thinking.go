package policy

import "strings"

// thinkingLevels are the canonical levels, in ascending order apart from the last, which leaves the amount to the model.
var thinkingLevels = [...]string{"off", "minimal", "low", "medium", "high", "xhigh", "adaptive"}

// ThinkingLevels returns the canonical thinking levels.
func ThinkingLevels() []string { return append([]string(nil), thinkingLevels[:]...) }

// ParseThinking returns the canonical level that s means, such as "medium" for "Think-Harder", and whether it means one. Case, space,
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
