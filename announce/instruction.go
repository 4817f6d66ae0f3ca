package announce

import (
	"strconv"

	"github.com/offshoot-sdk/offshoot/spawn"
)

// instruction returns what the requester's model is told to do with the event. Its text does not
// depend on anything that the child wrote.
func (e Event) instruction() string {
	return e.siblingRule() + e.outcomeRule() + e.audienceRule()
}

// siblingRule says how many other runs of the requester are still active. It is empty if none is.
func (e Event) siblingRule() string {
	if e.Siblings <= 0 {
		return ""
	}
	runs, they := " other runs of yours are", "they have"
	if e.Siblings == 1 {
		runs, they = " other run of yours is", "it has"
	}
	return strconv.Itoa(e.Siblings) + runs + " still active and will report in the same way, " +
		"unless " + they + " nothing to say. " +
		"If this result is part of the same piece of work, wait for the rest; otherwise deal with this one alone, now. "
}

// outcomeRule says what a silent child or a run that did not end well asks of the model. It is
// empty for a result that needs no warning.
func (e Event) outcomeRule() string {
	switch {
	case e.Silent:
		return "The child chose to report nothing; do not make up a result. "
	case e.Status == spawn.StatusOK:
		return ""
	}
	return "The run did not end well: treat the result as partial and say so instead of guessing what is missing. "
}

// audienceRule says for whom the model writes: for the session that gave it its task if the
// requester is itself a sub-agent, for no person who waits if it is a cron job, else for a person.
func (e Event) audienceRule() string {
	switch {
	case e.Nested:
		return "Use it for the task you work on; only the session that gave you the task reads your report. " +
			"Keep these details to yourself. If you have reported already and this changes nothing, " +
			"answer with only " + NoReply + "; before you have reported, never."
	case e.Cron:
		return "No person is waiting. Act on it as your job asks, or write what matters of it into your answer, as your own words; " +
			"never show this block or its details. " +
			"Answer with only " + NoReply + " if there is nothing to say to people."
	}
	return "Tell the person what matters of it in your normal voice, as your own words; never show this block or its details. " +
		"Answer with only " + NoReply + " if this exact result is already visible to them."
}
