package command

import (
	"strings"

	"github.com/offshoot-sdk/offshoot/internal/text"
)

// stopPhrases mean /stop when they are all that a person says. They are those of OpenClaw, but for
// the two with its name: see [Syntax.Bot].
var stopPhrases = []string{
	"stop", "esc", "abort", "wait", "exit", "halt", "interrupt", "please stop", "stop please",
	"stop run", "stop current run", "stop action", "stop current action", "stop agent",
	"stop the agent", "stop doing anything", "stop don't do anything", "stop dont do anything",
	"stop do not do anything", "do not do that",
	"stopp", "anhalten", "aufhören", "hoer auf", // German
	"arrete", "arrête", // French
	"detente", "deten", "detén", // Spanish
	"pare",                                                     // Portuguese
	"стоп", "остановись", "останови", "остановить", "прекрати", // Russian
	"停止",         // Chinese, Japanese
	"やめて", "止めて", // Japanese
	"रुको", // Hindi
	"توقف", // Arabic
}

// StopPhrases returns what means /stop when it is all that a person says, as [Syntax] takes it when
// nothing else is set.
func StopPhrases() []string { return append([]string(nil), stopPhrases...) }

// phrasePunctuation may stand behind a phrase.
const phrasePunctuation = " .!?…,;:。，；：！？'\"’”)]}"

// plainPhrase returns a phrase as it is compared: in lower case, with single spaces, and without
// the punctuation at its end.
func plainPhrase(s string) string {
	s = strings.ToLower(text.Line(s))
	s = strings.NewReplacer("’", "'", "`", "'").Replace(s)
	return strings.TrimRight(s, phrasePunctuation)
}

// maxPhrase is how many bytes a phrase has at most, with its punctuation.
const maxPhrase = 200

// isStopPhrase reports whether what a person says means /stop.
func (s *Syntax) isStopPhrase(said string) bool {
	if len(said) > maxPhrase {
		return false
	}
	said = plainPhrase(said)
	if said == "" {
		return false
	}
	phrases := s.Phrases
	if phrases == nil {
		phrases = stopPhrases
		if bot := plainPhrase(s.Bot); bot != "" && (said == "stop "+bot || said == bot+" stop") {
			return true
		}
	}
	for _, phrase := range phrases {
		if said == plainPhrase(phrase) {
			return true
		}
	}
	return false
}
