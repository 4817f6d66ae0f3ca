package session

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// The words of the grammar. See the package documentation for the shapes that they make.
const (
	wordAgent    = "agent"
	wordGlobal   = "global"
	wordUnknown  = "unknown"
	wordMain     = "main"
	wordSubagent = "subagent"
	wordSpawn    = "spawn"
	wordCron     = "cron"
	wordRun      = "run"
	wordACP      = "acp"
	wordHook     = "hook"
	wordDirect   = "direct"
	wordDM       = "dm" // an older word for direct, which is read and never written
	wordGroup    = "group"
	wordChannel  = "channel"
	wordThread   = "thread"
	wordTopic    = "topic"
)

// words are all words of the grammar.
var words = [...]string{
	wordAgent, wordMain, wordDirect, wordGroup, wordChannel, wordSubagent, wordThread, wordTopic,
	wordCron, wordRun, wordSpawn, wordACP, wordHook, wordDM, wordGlobal, wordUnknown,
}

// wordsOfLen has the words by their length.
var wordsOfLen = func() (table [len(wordSubagent) + 1][]string) { // no word is longer
	for _, w := range words {
		table[len(w)] = append(table[len(w)], w)
	}
	return table
}()

// Reasons of a [KeyError] that more than one place gives.
const (
	reserved = "reserved word" // a value is a word of the grammar
	tooLong  = "longer than 1024 bytes"
)

// maxAgentLen is the greatest length of an agent's id, in bytes.
const maxAgentLen = 64

// Parse parses a key in any of the forms that the package documentation lists.
//
// Parse is strict: it does not trim, repair or complete its input. Text that is not a key is a
// *[KeyError], which tells the first wrong byte.
//
// Words, agent ids, channels, accounts, names and the ids of sub-agents, cron jobs, hooks and
// external harnesses may be in any letter case of ASCII, and are lower-cased. Peers and the ids of
// threads keep their case, because channels distinguish it. The word dm is read as direct.
//
// Parse does not allocate memory for text that is already canonical.
func Parse(s string) (Key, error) {
	p := parser{s: s}
	p.key()
	if p.reason != "" {
		return Key{}, &KeyError{Key: s, Offset: p.at, Reason: p.reason}
	}
	return Key{p.canonical()}, nil
}

// A parser reads a key from left to right. After the first error it stays where it is, and every
// method does nothing.
type parser struct {
	s      string
	pos    int    // start of the next segment; beyond len(s) if there are no more segments
	at     int    // index of the wrong byte if reason is set
	reason string // the first error, "" if there is none

	// out is the canonical form of the segments that were taken. It is nil as long as that equals
	// s[:pos-1], so that canonical text is never copied.
	out []byte
}

// fail records an error at the byte at, unless there is one already.
func (p *parser) fail(at int, reason string) {
	if p.reason == "" {
		p.at, p.reason = at, reason
	}
}

// more reports whether there is a next segment and has been no error.
func (p *parser) more() bool { return p.reason == "" && p.pos <= len(p.s) }

// peek returns the next segment without taking it, "" if more is false.
func (p *parser) peek() string {
	if !p.more() {
		return ""
	}
	segment, _, _ := strings.Cut(p.s[p.pos:], ":")
	return segment
}

// word returns the next segment if it is a word of the grammar, else "".
func (p *parser) word() string { return wordOf(p.peek()) }

// atThread reports whether the next segment begins a thread or topic.
func (p *parser) atThread() bool {
	word := p.word()
	return word == wordThread || word == wordTopic
}

// take moves past the next segment, whose canonical form is canon.
func (p *parser) take(segment, canon string) {
	if p.out != nil {
		p.out = append(append(p.out, ':'), canon...)
	} else if segment != canon {
		p.out = append(append(make([]byte, 0, len(p.s)+len(canon)), p.s[:p.pos]...), canon...)
	}
	p.pos += len(segment) + 1
}

// canonical returns the canonical form of the segments that were taken.
func (p *parser) canonical() string {
	if p.out != nil {
		return string(p.out)
	}
	return p.s
}

// key reads a whole key.
func (p *parser) key() {
	if len(p.s) > MaxKeyLen {
		p.fail(MaxKeyLen, tooLong)
		return
	}
	switch first := p.peek(); wordOf(first) {
	case wordAgent:
		p.take(first, wordAgent)
	case wordGlobal:
		if p.take(first, wordGlobal); p.more() {
			p.fail(p.pos-1, "the global session has no parts")
		}
		return
	default:
		p.fail(0, `does not start with "agent:"`)
		return
	}
	p.segment(checkAgent)
	p.body()
	for p.more() {
		if !p.atThread() {
			p.fail(p.pos, "unexpected segment")
			return
		}
		p.keyword(p.word())
		p.opaque()
	}
	if len(p.out) > MaxKeyLen {
		p.fail(0, tooLong+" in canonical form")
	}
}

// body reads what follows the agent, up to the first thread.
func (p *parser) body() {
	switch word := p.word(); word {
	case wordSubagent, wordSpawn:
		for ; word == wordSubagent || word == wordSpawn; word = p.word() {
			p.keyword(word)
			p.segment(checkID)
		}
	case wordMain:
		p.keyword(word)
	case wordCron:
		p.keyword(word)
		p.segment(checkID)
		if word = p.word(); word == wordRun {
			p.keyword(word)
			p.segment(checkID)
		}
	case wordACP:
		p.keyword(word)
		p.segment(checkID)
	case wordHook:
		p.keyword(word)
		p.segment(checkID)
		for p.more() && !p.atThread() {
			p.segment(checkID)
		}
	case wordDirect, wordDM:
		p.keyword(word)
		p.opaque()
	default:
		p.chat()
	}
}

// chat reads the name of a session, or a channel with the account, kind and peer behind it.
func (p *parser) chat() {
	p.segment(checkName)
	if !p.more() || p.atThread() {
		return
	}
	switch p.word() {
	case wordDirect, wordDM, wordGroup, wordChannel:
	default:
		at := p.pos
		p.segment(checkID) // an account
		if word := p.word(); word != wordDirect && word != wordDM {
			p.fail(at, "unknown shape")
		}
	}
	p.keyword(p.word())
	p.opaque()
}

// keyword takes the next segment, which is a word of the grammar: what p.word has returned.
func (p *parser) keyword(word string) {
	if p.reason != "" {
		return
	}
	segment := p.s[p.pos : p.pos+len(word)]
	if word == wordDM {
		word = wordDirect
	}
	p.take(segment, word)
}

// segment takes a segment that check accepts in lower case. Its canonical form is in lower case.
func (p *parser) segment(check func(string) (int, string)) {
	if !p.more() {
		p.fail(len(p.s), "missing segment")
		return
	}
	segment := p.peek()
	if _, reason := check(segment); reason == "" {
		p.take(segment, segment)
		return
	}
	canon := lower(segment)
	if at, reason := check(canon); reason != "" {
		p.fail(p.pos+at, reason)
		return
	}
	p.take(segment, canon)
}

// opaque takes a peer or the id of a thread: one segment or more, up to the next thread or topic.
func (p *parser) opaque() {
	for first := true; first || p.more() && !p.atThread(); first = false {
		if !p.more() {
			p.fail(len(p.s), "missing segment")
			return
		}
		segment := p.peek()
		if at, reason := checkOpaque(segment); reason != "" {
			p.fail(p.pos+at, reason)
			return
		}
		p.take(segment, segment)
	}
}

// checkAgent returns what is wrong with the id of an agent in lower case, and at which byte.
func checkAgent(s string) (at int, reason string) {
	if s == "" {
		return 0, "empty segment"
	}
	for i := range len(s) {
		if c := s[i]; !isAlnum(c) && (i == 0 || c != '_' && c != '-') {
			return i, "invalid agent id: want a letter or digit, then letters, digits, - and _"
		}
	}
	if len(s) > maxAgentLen {
		return maxAgentLen, "invalid agent id: longer than 64 bytes"
	}
	switch s {
	case wordSubagent, wordSpawn:
		return 0, reserved
	}
	return 0, ""
}

// checkID returns what is wrong with an id or an account in lower case.
func checkID(s string) (at int, reason string) {
	if at, reason = checkToken(s); reason != "" {
		return at, reason
	}
	switch s {
	case wordSubagent, wordSpawn, wordThread, wordTopic:
		return 0, reserved
	}
	return 0, ""
}

// checkName returns what is wrong with the name of a session or channel in lower case. A word of
// the grammar is not a name.
func checkName(s string) (at int, reason string) {
	if at, reason = checkToken(s); reason != "" {
		return at, reason
	}
	if wordOf(s) != "" {
		return 0, reserved
	}
	return 0, ""
}

// checkToken returns what is wrong with text that must begin with a letter or digit of ASCII in
// lower case, and go on with such letters, digits and any of . _ - ~ @ + =
func checkToken(s string) (at int, reason string) {
	if s == "" {
		return 0, "empty segment"
	}
	for i := range len(s) {
		if c := s[i]; !isAlnum(c) && (i == 0 || !isTokenMark[c]) {
			return i, "invalid character: want a letter or digit, then letters, digits and any of ._-~@+="
		}
	}
	return 0, ""
}

// isTokenMark holds which bytes a token may have beside letters and digits.
var isTokenMark = [256]bool{
	'.': true, '_': true, '-': true, '~': true, '@': true, '+': true, '=': true,
}

// checkOpaque returns what is wrong with a segment of a peer or a thread's id.
func checkOpaque(s string) (at int, reason string) {
	if s == "" {
		return 0, "empty segment"
	}
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], string(utf8.RuneError)):
			return i, "invalid UTF-8"
		case unicode.IsSpace(r):
			return i, "space"
		case !unicode.IsPrint(r):
			return i, "control or format character"
		}
	}
	for _, w := range [...]string{wordSubagent, wordSpawn, wordThread, wordTopic} {
		if strings.EqualFold(s, w) { // folds Unicode, so that look-alikes are refused as well
			return 0, reserved
		}
	}
	return 0, ""
}

// wordOf returns the word of the grammar that equals s in any letter case of ASCII, else "".
func wordOf(s string) string {
	if len(s) >= len(wordsOfLen) {
		return ""
	}
	for _, w := range wordsOfLen[len(s)] {
		if equalWord(s, w) {
			return w
		}
	}
	return ""
}

// equalWord reports whether s equals word in any letter case of ASCII. The word is in lower case.
func equalWord(s, word string) bool {
	if len(s) != len(word) {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != word[i] {
			return false
		}
	}
	return true
}

// lower returns s with the capital letters of ASCII in lower case. It does not copy an s without
// capitals.
func lower(s string) string {
	for i := range len(s) {
		if 'A' <= s[i] && s[i] <= 'Z' {
			b := []byte(s)
			for j := i; j < len(b); j++ {
				if 'A' <= b[j] && b[j] <= 'Z' {
					b[j] += 'a' - 'A'
				}
			}
			return string(b)
		}
	}
	return s
}

// isAlnum reports whether c is a lower-case letter or a digit of ASCII.
func isAlnum(c byte) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' }
