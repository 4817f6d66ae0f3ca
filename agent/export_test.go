package agent

import (
	"maps"
	"math"

	"github.com/offshoot-sdk/offshoot/session"
)

// WaitOverText is what a session is told whose wait is over.
var WaitOverText = waitOverText

// SpawnParams returns every parameter that sessions_spawn knows, those included that it refuses.
func SpawnParams() map[string]bool {
	params := make(map[string]bool)
	for _, list := range [...][]string{spawnParams, deliveryParams} {
		for _, name := range list {
			params[name] = true
		}
	}
	for name := range maps.Keys(unbuiltParams) {
		params[name] = true
	}
	for name := range maps.Keys(unbuiltNames) {
		params[name] = true
	}
	return params
}

// ReadConversation returns the conversation that a turn would be given that reads these lines.
func ReadConversation(lines []session.Line) []Message {
	view, _, _ := readConversation(committed(lines, math.MaxUint64))
	return view
}
