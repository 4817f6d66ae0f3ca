package agent

import (
	"strconv"

	"github.com/offshoot-sdk/offshoot/spawn"
)

// waitOverText is what a session is told whose wait is over without anything new to report: why it
// is over, and how many of its sub-agents are still active.
func waitOverText(w *spawn.Waited, active int) string {
	return "[Offshoot] " + whyWaitIsOver(w) + stillAtWork(active)
}

// whyWaitIsOver says why a wait is over; w is nil if that is not known.
func whyWaitIsOver(w *spawn.Waited) string {
	switch {
	case w == nil:
		return "Your wait for sub-agents is over."
	case w.Left == 0 && w.Told == 0:
		return "The sub-agents you were waiting for have ended. None of them had anything to report."
	case w.Left == 0:
		return "The sub-agents you were waiting for have ended. " +
			"What they had to report has been reported to you."
	}
	why := "The time for which you wanted to wait is up."
	if w.Enough {
		why = "As many of the sub-agents you were waiting for as you asked for have ended."
	}
	if w.Told == 0 && (w.Enough || w.Ended > 0) {
		why += " None of those that have ended had anything to report."
	}
	return why
}

// stillAtWork says how many sub-agents of a session have not ended. It is empty if none is left.
func stillAtWork(active int) string {
	switch active {
	case 0:
		return ""
	case 1:
		return " 1 sub-agent of yours is still at work. " +
			"If it has something to report, that comes to you automatically."
	}
	return " " + strconv.Itoa(active) + " sub-agents of yours are still at work. " +
		"What they have to report comes to you automatically."
}
