package session

import "strings"

// IsSubagentSession reports whether key must be treated as that of a sub-agent: whether it names one, with the word subagent or spawn. It fails closed:
// text that is not a key names nobody who is trusted with more, so the answer is true; the one exception is the bare word main, by
// which chats and older configurations mean the main session. Where there is a [Key], use [Key.IsSubagent].
func IsSubagentSession(key string) bool {
	k, err := Parse(key)
	if err != nil {
		return !equalWord(key, wordMain)
	}
	return k.IsSubagent()
}

// IsSubagentByLabel reports whether a session's label marks it as a sub-agent by starting with "subagent:", in any case and after
// any space.
func IsSubagentByLabel(label string) bool {
	word, _, ok := strings.Cut(strings.TrimSpace(label), ":")
	return ok && strings.EqualFold(strings.TrimSpace(word), wordSubagent)
}
