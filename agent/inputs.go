package agent

import (
	"slices"
	"strconv"

	"github.com/offshoot-sdk/offshoot/announce"
	agentctx "github.com/offshoot-sdk/offshoot/context"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// taskFirst returns the inputs of a turn with the task before what has come since: the prompt says
// that it is the first message, and what else a sub-agent is told adds to it.
func taskFirst(inputs []spawn.Input) []spawn.Input {
	i := slices.IndexFunc(inputs, func(in spawn.Input) bool { return in.Class == spawn.InputTask })
	if i <= 0 {
		return inputs
	}
	return slices.Concat(inputs[i:i+1], inputs[:i], inputs[i+1:])
}

// messagesOf returns inputs as messages of the conversation.
func (rt *Runtime) messagesOf(st *spawn.TurnInput, inputs []spawn.Input) []Message {
	messages := make([]Message, 0, len(inputs)+1)
	for _, in := range taskFirst(inputs) {
		m := Message{
			ID: in.ID, Role: session.MessageUser, Text: in.Text, Time: in.Time,
			From: in.Sender, Parts: in.Parts, Ord: in.Ord,
		}
		switch in.Class {
		case spawn.InputUser:
		case spawn.InputTask:
			m.Text = agentctx.TaskMessage(subagentOf(st), in.Text)
		case spawn.InputSteer:
			m.Internal = true
		case spawn.InputCompletion:
			m.Internal = true
			if in.Completion != nil {
				m.ID = string(in.Completion.Run.ID)
				m.Text = announce.NewEvent(in.Completion).ForModel()
			}
		case spawn.InputMilestone:
			m.Internal, m.Text = true, milestoneText(in)
		}
		messages = append(messages, m)
	}
	return messages
}

// firstMessages returns what is new when a turn begins. One that nothing has woken but the end of a
// wait is told of that.
func (rt *Runtime) firstMessages(st *spawn.TurnInput) []Message {
	messages := rt.messagesOf(st, st.Inputs)
	woken := slices.ContainsFunc(st.Inputs, func(in spawn.Input) bool {
		return in.Class != spawn.InputMilestone
	})
	if woken || st.N == 1 {
		return messages
	}
	over := waitOverText(st.Waited, st.Active)
	return append(messages, Message{
		Role: session.MessageUser, Text: over, Internal: true, Synthetic: true,
	})
}

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
