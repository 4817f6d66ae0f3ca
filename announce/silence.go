package announce

import (
	"strings"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/internal/enum"
)

// The words by which a model chooses to say nothing. They count on the visible text only, see [Decide].
const (
	NoReply      = "NO_REPLY"      // in any letter case
	AnnounceSkip = "ANNOUNCE_SKIP" // exactly
)

// A Decision is what a turn wants done with what it said. It is the typed form of the silent tokens. The zero Decision is
// none.
type Decision uint8

const (
	// DecisionSpeak has something for the reader.
	DecisionSpeak Decision = iota + 1
	// DecisionSilent chose to say nothing: nothing is announced, and nobody who waits goes on waiting.
	DecisionSilent
	// DecisionDefer said nothing and did not choose silence either: a turn that only thought, called tools or waits for others.
	// What is owed is still owed; a run that ended like this falls back on what it recorded.
	DecisionDefer
)

var decisionNames = [...]string{"none", "speak", "silent", "defer"}

// String returns the word for d, such as "silent".
func (d Decision) String() string { return enum.String(decisionNames[:], "Decision", d) }

// MarshalText returns the word for d. A value that is not a Decision is an error.
func (d Decision) MarshalText() ([]byte, error) {
	return enum.Marshal(decisionNames[:], "announce", "decision", d)
}

// UnmarshalText sets d to the Decision that text is the word for, in any letter case of ASCII.
func (d *Decision) UnmarshalText(text []byte) error {
	return enum.Unmarshal(decisionNames[:], "announce", "decision", text, d)
}

// Decide reads a model's reply: [DecisionSilent] if its visible text is nothing but silent tokens, [DecisionDefer] if nothing is visible,
// else [DecisionSpeak]. See [Visible] for the rules.
func Decide(reply string) Decision {
	_, d := read(reply)
	return d
}

// Skips reports whether a silent reply is one that says [AnnounceSkip]: it takes back what earlier turns of the run
// answered, which [NoReply] does not.
func Skips(reply string) bool {
	return Decide(reply) == DecisionSilent && strings.Contains(Sanitize(reply), AnnounceSkip)
}

// Visible returns what a person may see of a model's reply, and whether there is anything: ok is false if the model chose
// silence or said nothing, and then the text is empty.
//
// The reply is sanitized, see [Sanitize], and then read for silent tokens. It is silent if it consists of [NoReply] in any
// letter case or [AnnounceSkip] in exactly this one, alone or repeated; outer space, invisible characters, quotes, emphasis
// and the punctuation around it are ignored. A token alone at the end, after a space or a '*', is removed. Inside a
// sentence or a word it is text.
func Visible(reply string) (text string, ok bool) {
	text, d := read(reply)
	return text, d == DecisionSpeak
}

func read(reply string) (string, Decision) {
	text := Sanitize(reply)
	if text == "" {
		return "", DecisionDefer
	}
	if isTokens(trimDecoration(text)) {
		return "", DecisionSilent
	}
	for range maxRounds {
		rest, found := cutTokens(text)
		if !found {
			return text, DecisionSpeak
		}
		if trimDecoration(rest) == "" {
			break
		}
		text = Sanitize(rest) // what was cut may have shielded a tag
	}
	return "", DecisionSilent
}

// cutTokens removes the silent tokens that stand alone at the end of a text.
func cutTokens(text string) (rest string, found bool) {
	for {
		trimmed, ok := cutToken(text)
		if !ok {
			// What surrounds a token may be ignored only where nothing else is on its line: "say NO_REPLY." is a sentence.
			line := text[strings.LastIndexByte(text, '\n')+1:]
			if !isTokens(trimDecoration(line)) {
				return text, found
			}
			trimmed = text[:len(text)-len(line)]
		}
		text, found = strings.TrimRightFunc(trimmed, isIgnored), true
	}
}

// cutToken removes one token from the end of a text, and the emphasis before it.
func cutToken(text string) (rest string, ok bool) {
	text = strings.TrimRightFunc(text, isIgnored)
	n := tokenAtEnd(text)
	if n == 0 {
		return "", false
	}
	rest = text[:len(text)-n]
	if strings.HasSuffix(rest, "*") {
		return strings.TrimRight(rest, "*"), true
	}
	r, _ := utf8.DecodeLastRuneInString(rest)
	return rest, rest == "" || isIgnored(r)
}

// isTokens reports whether a text is one or more silent tokens with space between them.
func isTokens(text string) bool {
	for ok := true; ok; {
		if text, ok = cutToken(text); ok && text == "" {
			return true
		}
	}
	return false
}

// tokenAtEnd returns the length of the silent token that a text ends with, or 0.
func tokenAtEnd(text string) int {
	if n := len(text) - len(NoReply); n >= 0 && strings.EqualFold(text[n:], NoReply) {
		return len(NoReply)
	}
	if strings.HasSuffix(text, AnnounceSkip) {
		return len(AnnounceSkip)
	}
	return 0
}

// isIgnored reports whether r neither carries nor separates meaning around a token.
func isIgnored(r rune) bool { return isOuterSpace(r) || isInvisible(r) || r == 0 }

func trimDecoration(s string) string {
	return strings.TrimFunc(s, func(r rune) bool { return isIgnored(r) || strings.ContainsRune("*_~`\"'.,;:!()", r) })
}
