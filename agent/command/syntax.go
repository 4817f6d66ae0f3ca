package command

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/internal/text"
)

// A Syntax says how commands are written. The zero Syntax is ready for use.
type Syntax struct {
	// Bot is the name of the bot on its channel, in any letter case. Where several bots hear what
	// is said, people write "/stop@Bot": a command with another name is not one of this bot, and
	// with an empty Bot none with a name is. "stop Bot" is a phrase that means /stop.
	Bot string
	// Phrases are what means /stop when it is all that a person says, in any letter case and with
	// any punctuation at the end. Nil: [StopPhrases]; empty: only the command does.
	Phrases []string
}

// Bounds of what a command may have.
const (
	maxMessage = 4000 // characters of a message to a sub-agent
	maxLines   = 200  // messages of a log
	someLines  = 20   // messages of a log, unless it says otherwise
)

// A UsageError says what is wrong with a command. Nothing was done.
type UsageError struct {
	Command string // as a person types it, such as "/kill"
	Field   string // what is missing or wrong, such as "target"; empty: the whole
	Value   string // what stands there; empty: nothing does
	Reason  string // one clause, in words for people
	Usage   string // how the command is written
}

// Error says what is wrong, and where.
func (e *UsageError) Error() string {
	where := e.Command
	if e.Field != "" {
		where += ": " + e.Field
	}
	if e.Value != "" {
		where += " " + text.Quote(e.Value)
	}
	return fmt.Sprintf("command: %s: %s", where, e.Reason)
}

// words says to a person what is wrong, and how the command is written.
func (e *UsageError) words() string {
	said := ""
	if e.Value != "" {
		said = text.Quote(text.Line(e.Value)) + ": "
	} else if e.Field != "" {
		said = "The " + e.Field + ": "
	}
	return said + e.Reason + ".\nUsage: " + e.Usage
}

// Parse reads what a person has said. It returns false for what is not a command of this package,
// which then is a message like any other: a word that only begins like a command, such as
// "/killall", is not one, and neither is one for another bot. The error is a *[UsageError].
//
// Names of commands, actions and flags are read in any letter case. A message or a task stays as it
// was typed, with its line breaks. A target of several words may stand in quotation marks, and
// needs them where something follows it.
func (s *Syntax) Parse(said string) (c Command, ok bool, err error) {
	c, _, ok, err = s.parse(said)
	return c, ok, err
}

// parse is Parse with the name of the command as the person has typed it.
func (s *Syntax) parse(said string) (c Command, typed string, ok bool, err error) {
	said = strings.TrimSpace(said)
	if !strings.HasPrefix(said, "/") {
		if s.isStopPhrase(said) {
			return Stop{Phrase: true}, Stop{}.Name(), true, nil
		}
		return nil, "", false, nil
	}
	word, rest := cutWord(said)
	if name, after, found := strings.Cut(word, ":"); found { // "/kill: 1"
		word, rest = name, strings.TrimSpace(after+" "+rest)
	}
	if name, bot, found := strings.Cut(word, "@"); found {
		if s.Bot == "" || !strings.EqualFold(bot, s.Bot) {
			return nil, "", false, nil
		}
		word = name
	}
	name := strings.ToLower(word)
	if strings.TrimRight(name, phrasePunctuation) == "/stop" && rest == "" {
		return Stop{}, Stop{}.Name(), true, nil
	}
	parse, ok := parsers[name]
	if !ok {
		return nil, "", false, nil
	}
	if c, err = parse(name, rest); err != nil {
		return nil, "", true, err
	}
	return c, typedName(c, name, rest), true, nil
}

// typedName returns the name of a command that was typed as name and rest: that of the command,
// unless it has several.
func typedName(c Command, name, rest string) string {
	switch c.(type) {
	case Kill, Steer:
		if name == "/subagents" {
			action, _ := cutWord(rest)
			return name + " " + strings.ToLower(action)
		}
		return name
	case Reset:
		return name
	}
	return c.Name()
}

// A parser reads what stands behind the name of a command.
type parser func(name, rest string) (Command, error)

var parsers = map[string]parser{
	"/subagents": parseSubagents,
	"/kill":      parseKill, "/steer": parseSteer, "/tell": parseSteer,
	"/focus": parseFocus, "/unfocus": alone(Unfocus{}), "/agents": alone(Agents{}),
	"/session": parseLimit, "/stop": alone(Stop{}),
	"/new": parseReset, "/reset": parseReset, "/compact": alone(Compact{}),
}

var actions = map[string]parser{
	"list": alone(List{}), "help": parseHelp,
	"kill": parseKill, "stop": parseKill, "log": parseLog, "info": parseInfo,
	"send": parseSend, "steer": parseSteer, "spawn": parseSpawn,
}

// usages say how each command is written that takes something, by its name as a person types it.
var usages = map[string]string{
	"/subagents kill":  "/subagents kill <target|all>",
	"/subagents stop":  "/subagents stop <target|all>",
	"/subagents log":   "/subagents log <target> [limit] [tools]",
	"/subagents info":  "/subagents info <target>",
	"/subagents send":  "/subagents send <target> <message>",
	"/subagents steer": "/subagents steer <target> <message>",
	"/subagents spawn": "/subagents spawn <agent> <task> [--model <model>] [--thinking <level>]",
	"/kill":            "/kill <target|all>",
	"/steer":           "/steer <target> <message>",
	"/tell":            "/tell <target> <message>",
	"/focus":           "/focus <target>",
	"/session":         "/session idle|max-age [duration|off]",
	"/session idle":    "/session idle [duration|off]",
	"/session max-age": "/session max-age [duration|off]",
}

// usageError returns the error of a command as it was named.
func usageError(name, field, value, reason string) *UsageError {
	usage, ok := usages[name]
	if !ok {
		usage = name
	}
	return &UsageError{Command: name, Field: field, Value: value, Reason: reason, Usage: usage}
}

// alone returns the parser of a command that takes nothing.
func alone(c Command) parser {
	return func(name, rest string) (Command, error) {
		if rest == "" {
			return c, nil
		}
		reason := "nothing stands behind " + name
		if _, stops := c.(Stop); stops {
			reason += ", which stops all of this conversation; /kill stops one sub-agent"
		}
		return nil, usageError(name, "", rest, reason)
	}
}

func parseSubagents(name, rest string) (Command, error) {
	word, rest := cutWord(rest)
	if word == "" {
		return List{}, nil
	}
	action := strings.ToLower(word)
	parse, ok := actions[action]
	if !ok {
		return Help{Unknown: word}, nil
	}
	return parse(name+" "+action, rest)
}

func parseHelp(_, _ string) (Command, error) { return Help{}, nil }

func parseKill(name, rest string) (Command, error) {
	target, err := wholeTarget(name, rest)
	return Kill{Target: target}, err
}

func parseInfo(name, rest string) (Command, error) {
	target, err := wholeTarget(name, rest)
	return Info{Target: target}, err
}

func parseFocus(name, rest string) (Command, error) {
	target, err := wholeTarget(name, rest)
	return Focus{Target: target}, err
}

func parseSend(name, rest string) (Command, error) {
	target, message, err := targetAndMessage(name, rest)
	return Send{Target: target, Text: message}, err
}

func parseSteer(name, rest string) (Command, error) {
	target, message, err := targetAndMessage(name, rest)
	return Steer{Target: target, Text: message}, err
}

func parseReset(_, rest string) (Command, error) { return Reset{Text: rest}, nil }

// parseLog reads a target, a limit and the word tools, which may stand anywhere.
func parseLog(name, rest string) (Command, error) {
	var c Log
	target, quoted := "", false
	if opening(rest) != 0 {
		var err error
		if target, rest, err = cutTarget(name, rest); err != nil {
			return nil, err
		}
		quoted = true
	}
	var words []string
	for word := range strings.FieldsSeq(rest) {
		if strings.EqualFold(word, "tools") {
			c.Tools = true
			continue
		}
		words = append(words, word)
	}
	if n := len(words); n > 0 && (quoted || n > 1) {
		last := words[n-1]
		limit, err := strconv.Atoi(last)
		switch {
		case err == nil && limit < 1:
			return nil, usageError(name, "limit", last, "the limit is from 1 to 200 messages")
		case err == nil:
			c.Limit, words = min(limit, maxLines), words[:n-1]
		case isNumber(last): // too large for an int
			c.Limit, words = maxLines, words[:n-1]
		}
	}
	switch left := strings.Join(words, " "); {
	case quoted && left != "":
		return nil, usageError(name, "limit", left, "it is not a number of messages")
	case quoted:
		c.Target = target
	case left == "":
		return nil, usageError(name, "target", "", noTarget)
	default:
		c.Target = left
	}
	return c, nil
}

// isNumber reports whether a word has digits alone.
func isNumber(word string) bool {
	return word != "" && strings.Trim(word, "0123456789") == ""
}

// parseLimit reads the limits of a binding.
func parseLimit(name, rest string) (Command, error) {
	word, rest := cutWord(rest)
	var c Limit
	switch strings.ToLower(word) {
	case "idle":
		c.Kind = LimitIdle
	case "max-age":
		c.Kind = LimitMaxAge
	case "":
		return nil, usageError(name, "limit", "", "it is missing")
	default:
		return nil, usageError(name, "limit", word, "it is not a limit of this conversation")
	}
	words := strings.Fields(rest)
	value := strings.Join(words, "")
	if value == "" {
		return c, nil
	}
	if len(words) > 1 && slices.ContainsFunc(words, isNumber) {
		return nil, usageError(name+" "+c.Kind.String(), "duration", rest,
			"a number without a unit stands alone")
	}
	c.Set = true
	if isOff(value) {
		return c, nil
	}
	d, fault := parseDuration(value)
	if fault != "" {
		return nil, usageError(name+" "+c.Kind.String(), "duration", rest, fault)
	}
	c.Value = d
	return c, nil
}

const noTarget = "it is missing; name a sub-agent by its number in the list, its label or its run id"

// wholeTarget reads a target behind which nothing stands.
func wholeTarget(name, rest string) (string, error) {
	if rest == "" {
		return "", usageError(name, "target", "", noTarget)
	}
	if opening(rest) == 0 {
		return strings.Join(strings.Fields(rest), " "), nil
	}
	target, rest, err := cutTarget(name, rest)
	if err == nil && rest != "" {
		err = usageError(name, "target", rest, "nothing stands behind the target")
	}
	return target, err
}

// targetAndMessage reads a target and a message, which stays as it was typed.
func targetAndMessage(name, rest string) (target, message string, err error) {
	if target, message, err = cutTarget(name, rest); err != nil {
		return "", "", err
	}
	switch n := utf8.RuneCountInString(message); {
	case text.IsBlank(message):
		return "", "", usageError(name, "message", "", "it is missing")
	case n > maxMessage:
		return "", "", usageError(name, "message", "", fmt.Sprintf(
			"it has %d characters, and %d at most can be sent", n, maxMessage))
	}
	return target, message, nil
}

// cutTarget parts a target from what follows it: a word, or what stands in quotation marks.
func cutTarget(name, s string) (target, rest string, err error) {
	closing := opening(s)
	if closing == 0 {
		if target, rest = cutWord(s); target == "" {
			return "", "", usageError(name, "target", "", noTarget)
		}
		return target, rest, nil
	}
	_, n := utf8.DecodeRuneInString(s)
	end := strings.IndexFunc(s[n:], func(r rune) bool { return r == closing || r == '"' })
	if end < 0 {
		return "", "", usageError(name, "target", s, "its quotation mark is not closed")
	}
	target = strings.Join(strings.Fields(s[n:n+end]), " ")
	_, m := utf8.DecodeRuneInString(s[n+end:])
	rest = s[n+end+m:]
	if target == "" {
		return "", "", usageError(name, "target", "", noTarget)
	}
	return target, strings.TrimSpace(rest), nil
}

// opening returns the quotation mark that closes the one with which s begins, or 0.
func opening(s string) rune {
	switch r, _ := utf8.DecodeRuneInString(s); r {
	case '"':
		return '"'
	case '“', '„', '”':
		return '”'
	case '«':
		return '»'
	}
	return 0
}

// cutWord parts the first word of a text without spaces at its ends from the rest, which has none
// at its begin.
func cutWord(s string) (word, rest string) {
	i := strings.IndexFunc(s, unicode.IsSpace)
	if i < 0 {
		return s, ""
	}
	return s[:i], strings.TrimLeftFunc(s[i:], unicode.IsSpace)
}
