package announce_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/announce"
	"github.com/offshoot-sdk/offshoot/internal/growth"
)

// hostileInputs make texts of about n bytes on which a careless scan takes quadratic time.
var hostileInputs = map[string]func(n int) string{
	"blank after angle":  func(n int) string { return "<" + strings.Repeat(" ", n) },
	"angles and blanks":  func(n int) string { return repeatTo("<   ", n) },
	"angles":             func(n int) string { return repeatTo("<", n) },
	"invisible names":    func(n int) string { return repeatTo("<\u200bt", n) },
	"open thoughts":      func(n int) string { return repeatTo("<think>", n) },
	"open and close":     func(n int) string { return repeatTo("<think><think></think>", n) },
	"alternating blocks": func(n int) string { return repeatTo("<think><relevant-memories></think>", n) },
	"attributes":         func(n int) string { return repeatTo("<think a=\"", n) },
	"open calls":         func(n int) string { return repeatTo("<tool_call>", n) + "{" },
	"open strings":       func(n int) string { return repeatTo("<tool_call>{\"", n) },
	"brackets in calls":  func(n int) string { return repeatTo("<tool_call [", n) },
	"results":            func(n int) string { return repeatTo("[Tool Result for ID 1]\n", n) },
	"result, line feeds": func(n int) string { return "[Tool Result for ID 1]" + strings.Repeat("\n", n) },
	"calls":              func(n int) string { return repeatTo("[Tool Call: ", n) },
	"arguments":          func(n int) string { return repeatTo("[Tool Call: x]\nArguments: {", n) },
	"notes":              func(n int) string { return repeatTo("[Historical context: [ x] ", n) },
	"notes on a line":    func(n int) string { return repeatTo("[Historical context: x] y ", n) },
	"code on a line":     func(n int) string { return repeatTo("`a` ", n) + "<" },
	"control openings":   func(n int) string { return repeatTo("<|", n) },
	"long control":       func(n int) string { return repeatTo("<|aaaaaaaaaaaaaaaa", n) },
	"invokes":            func(n int) string { return repeatTo("<invoke>:", n) },
	"minimax invokes":    func(n int) string { return "<minimax:tool_call>" + repeatTo("<invoke>", n) },
	"ticks of all lengths": func(n int) string {
		var b strings.Builder
		for i := 1; b.Len() < n/2; i++ {
			b.WriteString(strings.Repeat("`", i) + " ")
		}
		return "<" + b.String() + strings.Repeat("x", n/2)
	},
	"fences of all lengths": func(n int) string {
		var b strings.Builder
		for i := 3000; b.Len() < n && i > 3; i-- {
			b.WriteString(strings.Repeat("`", i) + "x\n")
		}
		return "<think>\n" + b.String()
	},
	"fences in a thought":  func(n int) string { return "<think>\n" + repeatTo("```x\n", n) },
	"echoes":               func(n int) string { return repeatTo("<<<completion x>>>\n", n) },
	"senders":              func(n int) string { return repeatTo("[message from \"", n) },
	"senders on a line":    func(n int) string { return repeatTo("[message from \"a\", id 1]", n) },
	"lines of senders":     func(n int) string { return repeatTo("1. [message from \"a\", id 1] x\n", n) },
	"sent messages":        func(n int) string { return repeatTo("[Offshoot] The session agent:a\n", n) },
	"echoes on a line":     func(n int) string { return "x" + repeatTo("<<<completion ", n) },
	"ends of echoes":       func(n int) string { return repeatTo("<<<end of completion x>>>", n) },
	"nested halves":        func(n int) string { return repeatTo("<th", n/2) + repeatTo("<think></think>ink>", n/2) },
	"tokens at the end":    func(n int) string { return "x" + repeatTo(" NO_REPLY", n) },
	"glued tokens":         func(n int) string { return repeatTo("NO_REPLY", n) },
	"spans":                func(n int) string { return repeatTo("`x <think>\ny` ", n) },
	"open spans":           func(n int) string { return repeatTo("`x [THINK]\n", n) + "`" },
	"empty parts":          func(n int) string { return repeatTo("<invoke name=\"x\">", n) },
	"parts in parts":       func(n int) string { return repeatTo("<invoke><parameter></invoke>", n) },
	"lines of stats":       func(n int) string { return repeatTo("- **Stats**: runtime \n", n) },
	"items":                func(n int) string { return repeatTo("\n1. ", n) + "NO_REPLY" },
	"labels":               func(n int) string { return repeatTo("\nAnswer:", n) + "NO_REPLY" },
	"tags around":          func(n int) string { return "x\n" + repeatTo("<b>\n", n) + "NO_REPLY" },
	"keys around":          func(n int) string { return "x\n" + repeatTo("{\"action\":", n) + "NO_REPLY" },
	"fences around":        func(n int) string { return "x" + repeatTo("\n```text\nNO_REPLY\n```", n) },
	"escapes around":       func(n int) string { return repeatTo("&lt;\n&#", n) + "NO_REPLY" },
	"escaped tokens":       func(n int) string { return "x" + repeatTo(" &#78;O&#95;REPLY", n) },
	"half of a token":      func(n int) string { return repeatTo("&#78;&#79;&#95;", n) },
	"commands around":      func(n int) string { return "x\n" + repeatTo("\\text{\n", n) + "NO_REPLY" },
	"tokens and emojis":    func(n int) string { return "x" + repeatTo(" NO_REPLY 🤐", n) },
	"emojis and a token":   func(n int) string { return "x NO_REPLY" + repeatTo("🤐🏽", n) + "x NO_REPLY" },
	"lines of formulas":    func(n int) string { return "x" + repeatTo("\n$$\nNO_REPLY\n$$", n) },
	"tags with attributes": func(n int) string { return repeatTo("<p class=x ", n) + "NO_REPLY" },
	"tags at the end":      func(n int) string { return "x." + repeatTo("<b>", n) + "NO_REPLY" + repeatTo("</b>", n) },
	"tokens in tags":       func(n int) string { return "x." + repeatTo("<p>NO_REPLY</p>", n) },
	"angles at the end":    func(n int) string { return "x. NO_REPLY" + repeatTo(">", n) },
	"questions":            func(n int) string { return "x" + repeatTo("? NO_REPLY", n) + "?" },
	"escaped breaks":       func(n int) string { return "x" + repeatTo(`\nNO_REPLY`, n) },
	"keys of a telephone":  func(n int) string { return "x NO_REPLY" + repeatTo("1\ufe0f\u20e3", n) },
	"environments":         func(n int) string { return "x\n" + repeatTo("\\begin{center}\n", n) + "NO_REPLY" },
	"lines without keys":   func(n int) string { return repeatTo("session key: unknown (\n", n) },
	"lines of tokens":      func(n int) string { return "x" + repeatTo("\n*NO_REPLY*", n) },
	"assignments":          func(n int) string { return repeatTo("KEY=\"", n) },
	"keys and blanks":      func(n int) string { return repeatTo("KEY    ", n) },
	"private keys":         func(n int) string { return repeatTo("-----BEGIN ", n) },
	"open private keys":    func(n int) string { return repeatTo("-----BEGIN PRIVATE KEY-----", n) },
	"urls":                 func(n int) string { return repeatTo("://a:b", n) },
	"bearers":              func(n int) string { return repeatTo("bearer ", n) },
	"cookies":              func(n int) string { return repeatTo("cookie: \"", n) },
	"code in a thought":    func(n int) string { return repeatTo("<think>`", n) },
	"code on prose lines":  func(n int) string { return repeatTo("prose `code` and <think>`x`</think> ", n) },
	"events on a line":     func(n int) string { return repeatTo("<<<completion a>>><<<end of completion a>>>", n) },
	"events and a word":    func(n int) string { return repeatTo("<<<completion a>>><<<end of completion a>>> x ", n) },
	"notes without end":    func(n int) string { return repeatTo("[Historical context: x]", n) },
	"notes never closed":   func(n int) string { return repeatTo("[Historical context: x", n) },
	"results on a line":    func(n int) string { return repeatTo("x[Tool Result]", n) },
	"ids on a line":        func(n int) string { return repeatTo("x[Tool Result for ID 1][Tool Call: x]", n) },
	"calls in tags":        func(n int) string { return repeatTo("<tool_call><function>", n) },
	"calls in calls":       func(n int) string { return repeatTo("<tool_call> ", n) + "<function>" },
	"half of them closed": func(n int) string {
		return repeatTo("<tool_call><function>", n/2) + repeatTo("</tool_call>", n/2)
	},
	"sequences":           func(n int) string { return repeatTo("\x1b[31m", n) },
	"sequences not ended": func(n int) string { return repeatTo("\x1b[3", n) },
	"titles":              func(n int) string { return repeatTo("\x1b]0;x\n", n) },
	"a title not ended":   func(n int) string { return repeatTo("\x1b]0;x", n) },
	"flags":               func(n int) string { return repeatTo("\U0001F3F4\U000E0067\U000E007F", n) },
	"turns":               func(n int) string { return repeatTo("<|im_start|>user\n", n) },
	"headers":             func(n int) string { return repeatTo("<|start|>assistant to=x", n) },
	"channels":            func(n int) string { return repeatTo("<|channel|>analysis<|message|>x", n) },
	"calls in a section":  func(n int) string { return repeatTo("<|tool_calls_begin|>x<|tool_sep|><", n) },
	"instructions":        func(n int) string { return repeatTo("[INST] x ", n) },
	"instructions ended":  func(n int) string { return repeatTo("[INST] x [/INST]", n) },
	"thoughts in a line":  func(n int) string { return repeatTo("x [THINK] ", n) },
	"think tokens":        func(n int) string { return repeatTo("x <|think|><|thinking|> ", n) },
	"hashed thoughts":     func(n int) string { return repeatTo("x <think_never_used_ab", n) },
	"references":          func(n int) string { return repeatTo("::contentReference[oaicite:1", n) },
	"template calls":      func(n int) string { return repeatTo("[TOOL_CALLS]a", n) },
	"names":               func(n int) string { return repeatTo("[TOOL_CALLS]", 1024) + strings.Repeat("a", n) },
	"struck out":          func(n int) string { return repeatTo("<s>", n) },
	"sentences":           func(n int) string { return repeatTo("<s>a</s>", n) },
	"roles":               func(n int) string { return repeatTo("\nUser:", n) },
	"roles after marks":   func(n int) string { return repeatTo("</s>USER:", n) },
	"switches":            func(n int) string { return "x" + repeatTo("./nothink", n) },
	"turns of MiniMax":    func(n int) string { return repeatTo("]~b]user\n", n) },
	"responses":           func(n int) string { return repeatTo("<tool_response>", n) },
	"responses and ends":  func(n int) string { return repeatTo("<tool_response></", n) },
	"tools":               func(n int) string { return repeatTo("<tools>[{", n) },
	"recipients":          func(n int) string { return repeatTo(">>>a\n", n) },
	"angles to the right": func(n int) string { return strings.Repeat(">", n) },
	"flowers":             func(n int) string { return repeatTo("✿FUNCTION✿", n) },
	"flowers on a line":   func(n int) string { return repeatTo("x ✿FUNCTION✿ ", n) },
	"triangles":           func(n int) string { return repeatTo("x ◁think▷", n) },
	"citations":           func(n int) string { return repeatTo("【4†", n) },
	"private citations":   func(n int) string { return repeatTo("\ue200cite", n) },
	"functions":           func(n int) string { return repeatTo("<function=a>{", n) },
	"named calls":         func(n int) string { return repeatTo("<function_calls>a(", n) },
	"keys of arguments":   func(n int) string { return repeatTo("<tool_call>a<arg_key>", n) },
	"assistants":          func(n int) string { return repeatTo("\n\nAssistant:", n) },
	"cites":               func(n int) string { return repeatTo("<cite index=1>", n) },
	"DSML":                func(n int) string { return repeatTo("<｜DSML｜", n) },
	"rendered citations":  func(n int) string { return repeatTo("{render_inline_citation", n) },
	"bare invokes":        func(n int) string { return "<minimax:tool_call>" + repeatTo("<invoke> `</invoke>`", n) },
	"invisible":           func(n int) string { return repeatTo("\u200b", n) },
	"invisible and words": func(n int) string { return repeatTo("\u200b\u2060a", n) },
	"reply tags":          func(n int) string { return repeatTo("[[reply_to_current]]", n) },
	"open reply tags":     func(n int) string { return repeatTo("[[reply_to:", n) },
	"reply tags, lines":   func(n int) string { return "[[reply_to:" + repeatTo("a\n\u200b", n) },
	"reply tags, closed":  func(n int) string { return "[[reply_to:" + repeatTo("] \n", n) },
	"malformed tags":      func(n int) string { return repeatTo("[[reply_to:a]b\n]", n) },
	"reply tags, blanks":  func(n int) string { return repeatTo("[ [  reply_to : ", n) },
	"brackets and blanks": func(n int) string { return "[" + strings.Repeat(" ", n) },
	"queries":             func(n int) string { return repeatTo("&key=a", n) },
	"prose headers":       func(n int) string { return repeatTo("=cookie: ", n) },
	"pairs":               func(n int) string { return repeatTo("a:b", n) },
	"wrapped tokens":      func(n int) string { return "ghp_" + repeatTo("0123456789abcdef\n", n) },
	"commands":            func(n int) string { return repeatTo("echo | curl -u ", n) },
	"lists":               func(n int) string { return repeatTo("tokens:\n- ", n) },
	"pages":               func(n int) string { return repeatTo("password: |\n  ", n) },
	"hashes":              func(n int) string { return repeatTo("x$1$", n) },
	"hooks":               func(n int) string { return repeatTo("/hooks/a1b2c3d4e5f6g7h8i9", n) },
	"places":              func(n int) string { return repeatTo("\nmc alias x net use \\\\a AUTH b1", n) },
	"named memory":        func(n int) string { return repeatTo("a <relevant-memories> is ", n) },
	"escaped users":       func(n int) string { return repeatTo("%2F%2Fa%3A", n) },
	"braces":              func(n int) string { return repeatTo("PWD={a", n) },
	"colours":             func(n int) string { return "PASSWORD=" + repeatTo("\x1b[0m", n) },
}

// repeatTo returns s repeated until it has n bytes or more.
func repeatTo(s string, n int) string { return strings.Repeat(s, n/len(s)+1) }

// linearWork is what this package does with a text that others wrote.
var linearWork = map[string]func(text string){
	"Visible and Skips": func(text string) {
		announce.Visible(text)
		announce.Skips(text)
		announce.ReadTags(text)
	},
	"Redact":   func(text string) { announce.Redact(text) },
	"Redactor": func(text string) { ordinaryRedactor().Redact(text) },
	"Stream":   func(text string) { streamed(text, 1000) },
	"ForModel": func(text string) {
		e := announce.NewEvent(testCompletion())
		e.Task, e.Reason, e.Result = text, text, text
		_ = e.ForModel()
	},
}

// ordinaryRedactor returns a Redactor of a bot with one secret, such as a password.
var ordinaryRedactor = sync.OnceValue(func() *announce.Redactor {
	r, err := announce.NewRedactor(announce.Redaction{Secrets: []string{"hunter2hunter2"}})
	if err != nil {
		panic(err)
	}
	return r
})

// S7: on every hostile input the time grows as its length does. The test is not parallel, so that
// nothing else of this package runs beside it. Under the race detector, which has no race to find
// here, nothing is measured.
func TestHostileInputsAreLinear(t *testing.T) {
	stable := 64 << 10
	if underRace {
		stable = 4 << 10
	}
	for name, input := range hostileInputs {
		for what, work := range linearWork {
			if underRace {
				work(input(4 << 10))
				continue
			}
			t.Run(name+"/"+what, func(t *testing.T) {
				require.LessOrEqual(t, growth.Of(work, input, 16<<10), growth.Most)
			})
		}
		text := input(stable)
		once := announce.Sanitize(text)
		require.Equal(t, once, announce.Sanitize(once), name)
	}
}

// wrappedTokens are beginnings of tokens of every sort of body, and wrappedBreaks what may stand
// between two lines of one token, or within it, and between two tokens.
var (
	wrappedTokens = []string{
		"sk-", "sk-live-", "sk-proj-", "sk-ant-", "xoxb-", "glpat-", "ghp_", "AKIA", "BSA", "cio", "eyJ",
		"KEY=",
	}
	wrappedBreaks = map[string]string{
		"escape": `\n`, "line feed": "\n", "CRLF": "\r\n", "soft hyphen": "\u00ad", "colour": "\x1b[31m",
		"soft break": "=\n",
	}
	wrappedBodies = map[string]func(i int) string{
		"same":    func(int) string { return "0000000000000000" },
		"short":   func(int) string { return "00000" },
		"turns":   func(int) string { return "1a2b3c4d5e6f7g8h" },
		"varying": func(i int) string { return fmt.Sprintf("%016x", uint64(i+1)*0x9E3779B97F4A7C15) },
	}
)

// A list of tokens, of which each may go on with the next, takes linear time, also where none of
// them is one. The first look compares two lengths, as in TestRepeatedTokensAreLinear.
func TestWrappedTokensAreLinear(t *testing.T) {
	if underRace {
		t.Skip("times are measured without the race detector")
	}
	r, err := announce.NewRedactor(announce.Redaction{})
	require.NoError(t, err)
	for what, work := range map[string]func(text string){
		"Redact": linearWork["Redact"],
		"Stream": linearWork["Stream"],
		"RedactJSON": func(text string) {
			quoted, err := json.Marshal(map[string]string{"a": text})
			require.NoError(t, err)
			r.RedactJSON(string(quoted), nil)
		},
	} {
		for _, begin := range wrappedTokens {
			for lineBreak, between := range wrappedBreaks {
				for kind, body := range wrappedBodies {
					input := func(n int) string {
						var b strings.Builder
						for i := 0; b.Len() < n; i++ {
							b.WriteString(begin + body(i) + between)
						}
						return b.String()
					}
					const size, longest = 4 << 10, 64 << 10
					short := growth.Time(1, work, input(size))
					long := growth.Time(1, work, input(longest))
					if long <= 2*longest/size*short {
						continue
					}
					got := growth.Of(work, input, size)
					require.LessOrEqual(t, got, growth.Most,
						"%s of %s, %s, %s", what, begin, lineBreak, kind)
				}
			}
		}
	}
}

// hostileSecrets are registered secrets that begin at each place of a text that repeats itself as
// they do, and texts that do.
var hostileSecrets = map[string]struct{ secret, text string }{
	"backslashes":        {strings.Repeat(`\`, 32), `\`},
	"backslashes, more":  {strings.Repeat(`\`, 64) + "x", `\`},
	"percent signs":      {strings.Repeat("%", 64) + "x", "%25"},
	"percent, bare":      {strings.Repeat("%", 64) + "x", "%"},
	"a letter":           {strings.Repeat("a", 4095) + "b", "a"},
	"a letter and lines": {strings.Repeat("a", 64) + "b", "a\n"},
	"capitals":           {strings.Repeat("A", 256) + "b", "A"},
	"base64":             {strings.Repeat("secret", 20) + "!", "c2VjcmV0"},
	"base64 alphabet":    {base64Alphabet, base64Alphabet[:60]},
	"JSON quotes":        {strings.Repeat(`\"`, 32) + "x", `\"`},
	"JSON in JSON":       {strings.Repeat(`"`, 32) + "x", `\\\"`},
	"entities":           {strings.Repeat("&", 32) + "x", "&amp;"},
	"blanks":             {"x" + strings.Repeat(" ", 64) + "x", "x  "},
	"unseen":             {strings.Repeat("a", 64) + "b", `a\u200b`},
	"unseen, bells":      {`\` + strings.Repeat("a", 64) + "b", `\a`},
	"unseen, entities":   {strings.Repeat("a", 64) + "b", "a&shy;"},
	"unseen, bytes":      {strings.Repeat("a", 64) + "b", "a%E2%80%8B"},
	"titles":             {strings.Repeat("a", 64) + "b", "a\x1b]0;"},
	"titles, escaped":    {strings.Repeat("a", 64) + "b", `a\x1b]0;x`},
	"titles, in a query": {strings.Repeat("a", 64) + "b", `a%1B%5D0`},
	"control sequences":  {strings.Repeat("a", 64) + "b", `a\x1b[1;`},
	"breaks":             {strings.Repeat("a", 64) + "b", `a\u2028\v`},
	"names":              {strings.Repeat("a", 64) + "b", "a&CounterClockwiseContour"},
	"returns":            {"hunter2hunter2", "\r"},
	"returns, bells":     {"hunter2hunter2", "\r\a"},
	"returns, escapes":   {"hunter2hunter2", "\\\r"},
	"returns, escaped":   {"hunter2hunter2", `\r`},
	"returns, entities":  {"hunter2hunter2", "&#13;"},
	"returns, in a mail": {"hunter2hunter2", "=\r"},
	"returns, percent":   {"hunter2hunter2", "%0D\r"},
	"digits, unseen":     {"hunter2hunter2", "\\x\u00ad"},
	"digits, escapes":    {"hunter2hunter2", "0\\\\"},
	"lines":              {"hunter2hunter2", "h\n"},
	"lines, blank":       {" hunter2hunter2", "\n"},
	"lines, blanks":      {"  " + strings.Repeat(" x", 32), "\n "},
	"lines, escaped":     {" hunter2hunter2", `\n`},
	"lines, nested":      {strings.Repeat(`\`, 64) + "x", `\\n`},
	"lines, in a query":  {"  hunter2hunter2", "%0A%20"},
	"lines, quoted":      {strings.Repeat("a", 64) + "b", "a\n> // "},
	"lines of its own":   {strings.Repeat("a\n", 64) + "b", "a\n> "},
	"lines of marks":     {strings.Repeat("-", 64) + "x", "-\n"},
	"lines, a list":      {strings.Repeat("- ", 32) + "x", "\n- "},
	"lines, quotations":  {"x" + strings.Repeat("> ", 32) + "x", "x\n> > "},
	"lines, changes":     {strings.Repeat("+-", 32) + "x", "\n+-"},
	"lines, soft":        {strings.Repeat("=", 64) + "x", "=\n"},
	"lines, far apart":   {strings.Repeat("a ", 64) + "b", "a" + strings.Repeat("\n", 100)},
	"lines, numbers":     {strings.Repeat("a>", 64) + "b", "a&#10;&gt;"},
	"seams":              {strings.Repeat("a", 64) + "b", "a "},
	"seams, words":       {strings.Repeat("ab ", 32) + "c", "a b "},
	"seams, some":        {"aa" + strings.Repeat("a aa", 32) + "b", "a a aa "},
	"seams, lines":       {strings.Repeat("aa ", 32) + "b", "a a\n"},
	"seams, tokens":      {strings.Repeat("a", 64) + "b", "a<|x|>a"},
}

// longSecrets are secrets of so many bytes that resemble themselves: of a period, or nearly of
// one.
var longSecrets = map[string]func(n int) string{
	"a letter":    func(n int) string { return strings.Repeat("a", n-1) + "b" },
	"two letters": func(n int) string { return repeatTo("ab", n)[:n-2] + "aa" },
	"a line":      func(n int) string { return repeatTo("aaaaaaaaaaaaaaab", n)[:n-1] + "c" },
	"a line, a letter off": func(n int) string {
		return repeatTo("aaaaaaaaaaaaaaab", n/2) + "a" + repeatTo("aaaaaaaaaaaaaaab", n)[:n/2]
	},
	"Fibonacci": func(n int) string {
		short, long := "b", "a"
		for len(long) < n {
			short, long = long, long+short
		}
		return long[:n-1] + "c"
	},
}

// longSpellings write a text as programs do, or with what a reader does not see.
var longSpellings = map[string]func(text string) string{
	"as it is":        func(text string) string { return text },
	"lines":           func(text string) string { return strings.ReplaceAll(text, "a", "a\n") },
	"percent":         func(text string) string { return strings.ReplaceAll(text, "a", "%61") },
	"escapes":         func(text string) string { return strings.ReplaceAll(text, "a", `\u0061`) },
	"unseen":          func(text string) string { return strings.ReplaceAll(text, "a", "a\u200b") },
	"seams":           func(text string) string { return strings.ReplaceAll(text, "a", "a ") },
	"some seams":      func(text string) string { return strings.ReplaceAll(text, "aab", "a ab") },
	"unseen, escaped": func(text string) string { return strings.ReplaceAll(text, "a", `a\u200b`) },
	"a title within":  func(text string) string { return strings.ReplaceAll(text, "aa", "a\x1b]0;x\aa") },
}

// S7: a registered secret that resembles itself takes time linear in it and in a text that
// resembles it: both are doubled. It is so as a whole and in pieces, also beside a short secret
// that the long one begins with.
func TestLongSecretsAreLinear(t *testing.T) {
	const size = 1 << 10 // of the shortest text, which has a secret of a fourth of that
	for name, secretOf := range longSecrets {
		for _, short := range []bool{false, true} {
			redactors := make(map[int]*announce.Redactor) // by the length of their texts
			redactorFor := func(n int) *announce.Redactor {
				if redactors[n] == nil {
					long := secretOf(n/4 - 1)
					secrets := []string{long}
					if short {
						secrets = append(secrets, long[:6])
					}
					r, err := announce.NewRedactor(announce.Redaction{Secrets: secrets})
					require.NoError(t, err)
					redactors[n] = r
				}
				return redactors[n]
			}
			for how, spell := range longSpellings {
				inputs := make(map[string]*announce.Redactor)
				input := func(n int) string {
					begin := secretOf(n/4 - 1)
					begin = begin[:len(begin)*3/4]
					text := repeatTo(spell(begin), n)[:n]
					inputs[text] = redactorFor(n)
					return text
				}
				whole := func(text string) { inputs[text].Redact(text) }
				inPieces := func(text string) { streamedBy(inputs[text].Stream(), text, 1000) }
				text := input(size << 2)
				seen, _ := announce.Visible(text)
				r := inputs[text]
				require.Equal(t, r.Redact(seen), streamedBy(r.Stream(), text, 77))
				if underRace {
					continue
				}
				got := growth.Of(whole, input, size)
				require.LessOrEqual(t, got, growth.Most, "%s, %s", name, how)
				got = growth.Of(inPieces, input, size)
				require.LessOrEqual(t, got, growth.Most, "%s, %s, in pieces", name, how)
			}
		}
	}
}

const base64Alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

// S7: a registered secret that repeats itself takes time linear in a text that does, too.
func TestHostileSecretsAreLinear(t *testing.T) {
	skipUnderRace(t)
	for name, tt := range hostileSecrets {
		r, err := announce.NewRedactor(announce.Redaction{Secrets: []string{tt.secret}})
		require.NoError(t, err)
		input := func(n int) string { return repeatTo(tt.text, n) }
		text := input(4 << 10)
		once := r.Redact(text)
		require.Equal(t, once, r.Redact(once), name)
		t.Run(name, func(t *testing.T) {
			work := func(text string) { r.Redact(text) }
			require.LessOrEqual(t, growth.Of(work, input, 4<<10), growth.Most)
		})
	}
}

// visibleTokens and redactTokens have a text for every kind of token that Visible and Redact know,
// and what stands between tokens.
var (
	visibleTokens = []string{
		"<", ">", "<think>", "</think>", "<relevant-memories>", "<tool_call>", "</tool_call>",
		"<tool_result>", "<tool_call", "{", "\"", "\\", "[", "]", "<function=x>", "<parameter>",
		"<invoke>", "</invoke>", "<minimax:tool_call>", "`", "``", "\n```\n", "\n", " ", "x",
		"<|x|>", "<|", "[Tool Call: x]", "Arguments: ", "[Tool Result for ID 1]", "[Tool Result]",
		"[Historical context: x]", "[Historical context: ", "<<<completion a>>>", "<<<completion ",
		"[[reply_to:", "[[audio_as_voice]]", "<<<end of completion a>>>", "Stats: runtime ", " • sessionKey ", " NO_REPLY", "*",
		"[message from ", "\"a\", id 1]", "[message from \"a\", id 1]", "[Offshoot] The session agent:a", " has sent you a message:",
		"\u200b", "<|im_start|>", "user\n", "<|channel|>analysis", "\x1b]",
	}
	templateTokens = []string{
		"[INST]", "[/INST]", "[THINK]", "<|think|>", "<|/think|>",
		"<think_never_used_", ":contentReference[oaicite:", "[TOOL_CALLS]", "[ARGS]", "<s>", "</s>", "USER:", "]~b]", "[e~[",
		"<start_of_turn>", "<end_of_turn>", "<|turn>", "<turn|>", ">>>", "all\n", "functools", ">>ANSWER<<",
		"✿FUNCTION✿", "✿RETURN✿", "◁think▷", "◁/think▷", "【4†a】", "\nUser:", "/nothink", ".", "[|", "user|]",
		"<tool_response>", "</tool_response>", "<tools>", "<cite index=1>", "</cite>", "<function=x>{",
		"\ue200", "cite", "\ue202", "\ue201", "\n\nAssistant:", "<｜DSML｜", "<extra_id_1>", "{render_inline_citation", "}",
	}
	redactTokens = []string{
		"KEY", "=", ":", "\"", "'", "\\", "\n", " ", "x", "-----BEGIN PRIVATE KEY-----",
		"-----END ", "://", "a:b@", "bearer ", "cookie: ", "&key=", "hooks.slack.com/services/",
		"sk-", "eyJabcdefgh.", "bot123456:", "--token ", "$NAME", "…", "***", "curl -u ", "tokens:\n- ", "%3D", "ghp_0123456789abcdefghij",
	}
)

// S7: pairs of tokens, repeated, take linear time. The first look at a pair compares two lengths.
// Only a pair that looks bad is measured as the hostile inputs are, from twice the longest look
// ahead on: what is one token within a look ahead may be many tokens behind it, each with work of
// its own.
func TestRepeatedTokensAreLinear(t *testing.T) {
	if underRace {
		t.Skip("times are measured without the race detector")
	}
	visible := func(text string) { announce.Visible(text) }
	for _, tt := range []struct {
		firsts, seconds []string
		work            func(text string)
	}{
		{visibleTokens, visibleTokens, visible},
		{templateTokens, []string{"\n", " ", "x", "<", "`", "<think>", "<|x|>", "[INST]"}, visible},
		{redactTokens, redactTokens, func(text string) { announce.Redact(text) }},
	} {
		for _, first := range tt.firsts {
			for _, second := range tt.seconds {
				const size, longer, shorts = 4 << 10, 8, 4
				input := func(n int) string { return repeatTo(first+second, n) }
				short := growth.Time(shorts, tt.work, input(size)) / shorts
				if long := growth.Time(1, tt.work, input(longer*size)); long > 2*longer*short {
					got := growth.Of(tt.work, input, 8*size)
					require.LessOrEqual(t, got, growth.Most, "%q", first+second)
				}
			}
		}
	}
}
