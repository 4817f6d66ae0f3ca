package command_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent/command"
)

// mentions are what chats take for mentions: of everyone, of a person, of a role, of a channel.
var mentions = []string{
	"@everyone", "@here", "<@123>", "<@!123>", "<@&9>", "<!here>", "<!channel>", "<!subteam^S1>",
	"@ann", "@@everyone", "x@everyone", "(@HERE)", "<users/all>", "<users/123>", "<USERS/all>",
	"tg://user?id=123", "[Ann](tg://user?id=123)", "TG://user?id=1", "<at>Ann</at>",
	`<at\u00a0id="1">Ann</at>`, `<at/>`, "[~ann]", "[~accountid:1]", "https://matrix.to/#/@ann:example.org",
	"https://matrix.to/#/%40ann:example.org", "[Ann](https://MATRIX.to/#/@ann:x.org)",
	"matrix:u/ann:example.org", "&lt;!channel&gt;", "&lt;@123&gt;", "&LT;!here&gt;", "&#60;!channel>",
	"&#x3c;@U1>", "&#64;everyone", "&commat;here", "&lt;users/all&gt;", "<#123>",
}

// alive finds a mention that has force.
var alive = regexp.MustCompile(`(?i)@(everyone|here)|<@[\d!&]|<![a-z]|(^|\W)@\w|` +
	`(<|&lt;|&#60;|&#x3c;)(@|!|users/|/?at\W|#)|tg://|\[~|matrix\.to/#|matrix:u|(&#64;|&commat;)\w`)

// The update about a sub-agent that a person has started mentions none of those whom the task does.
func TestUpdatesMentionNoOne(t *testing.T) {
	play(t, command.Options{}, func(b *bot) {
		at := room(b)
		for _, m := range mentions {
			b.say(at, "ann", "/subagents spawn beta "+m+" say")
			b.Pass(time.Minute)
		}
		said := b.chat.Said(at)
		require.Len(t, said, len(mentions))
		for _, s := range said {
			name, _, _ := strings.Cut(s, " is done.")
			require.NotRegexp(t, alive, name)
		}
	})
}

// No answer to a command mentions anyone, whatever a person has typed, and whatever a sub-agent is
// called or told.
func TestAnswersMentionNoOne(t *testing.T) {
	lines := []string{
		"/kill %", "/kill 1 %", "/subagents %", "/subagents kill %", "/subagents stop %",
		"/subagents log %", "/subagents log 1 %", "/subagents info %", "/subagents info 1",
		"/subagents send % hello", "/subagents send 1 %", "/subagents steer % hello",
		"/subagents steer 1 %", "/subagents spawn % work", "/subagents spawn main",
		"/subagents spawn beta hello % --model %", "/subagents spawn beta hello --thinking %",
		"/subagents list %", "/subagents help %", "/subagents", "/subagents log 1", "/steer % x",
		"/tell % x", "/focus %", "/focus 1", "/unfocus %", "/agents %", "/agents", "/session %",
		"/session idle %", "/session max-age %", "/stop %", "/new %", "/reset %", "/compact %",
		"/kill: %", "/kill 1",
	}
	play(t, command.Options{}, func(b *bot) {
		at := room(b)
		for _, m := range mentions {
			b.spawn(at, "do "+m, "work for "+m)
			for _, line := range lines {
				said := b.say(at, "ann", strings.ReplaceAll(line, "%", m))
				require.NotRegexp(t, alive, said, "%s with %s", line, m)
			}
			b.say(at, "ann", "/unfocus")
		}
		said := b.say(at, "ann", "/kill bot@example.org")
		require.Contains(t, said, "bot@example.org", "an address is no mention")
		for _, text := range []string{"<b>", "a&lt;b", "https://matrix.to/", "~ann", "no#12", "no at", "users/all"} {
			require.Contains(t, b.say(at, "ann", "/kill "+text), text, "it is no mention")
		}
	})
}
