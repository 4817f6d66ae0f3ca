package provider

import (
	"fmt"
	"strings"

	"github.com/offshoot-sdk/offshoot/policy"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// Thinking returns the thinking level of a ModelRequest in the word that [policy.ThinkingLevels]
// has for it, or "" for a request that has none. A client would else leave out what it does not
// know, and the model would think as much as it likes. The error is a *[spawn.InputError], and not
// worth another try.
func Thinking(level string) (string, error) {
	if level == "" {
		return "", nil
	}
	known, ok := policy.ParseThinking(level)
	if !ok {
		return "", &spawn.InputError{Field: "ModelRequest.Thinking", Reason: fmt.Sprintf(
			"%.100q is not one of %s", level, strings.Join(policy.ThinkingLevels(), ", "))}
	}
	return known, nil
}
