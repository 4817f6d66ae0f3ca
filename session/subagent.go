package session

import "strings"

// IsSubagentSession reports whether the text key must be treated as that of a sub-agent. It is true
// for the key of a sub-agent, with the word subagent or spawn. It is true also for text that is not
// a key, since such text must not gain the rights of a top-level session. The one exception is the
// bare word "main" in any letter case, by which chats and older configurations mean the main
// session: for it the answer is false. A caller that has a [Key] calls [Key.IsSubagent] instead.
func IsSubagentSession(key string) bool {
	k, err := Parse(key)
	if err != nil {
		return !equalWord(key, wordMain)
	}
	return k.IsSubagent()
}

// IsSubagentByLabel reports whether the label of a session marks it as a sub-agent: whether the
// label starts with "subagent:". Letter case and white space around the word do not matter.
func IsSubagentByLabel(label string) bool {
	word, _, ok := strings.Cut(strings.TrimSpace(label), ":")
	return ok && strings.EqualFold(strings.TrimSpace(word), wordSubagent)
}
