package agent

import (
	"maps"

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

// SafePage returns the safe view of a line.
func SafePage(line session.Line) HistoryPage {
	var v historyView
	v.add(line)
	return v.page()
}
