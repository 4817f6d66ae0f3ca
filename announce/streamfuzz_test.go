package announce_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/announce"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// checkStream fails unless a Stream shows of a text what is shown of the whole, in whichever pieces
// it comes.
func checkStream(t *testing.T, text string, sizes ...int) {
	t.Helper()
	whole, _ := announce.Visible(text)
	want := announce.Redact(whole)
	for _, n := range sizes {
		if got := streamed(text, n); got != want {
			t.Fatalf("%q by %d bytes\nshows %q,\nwhole %q", text, n, got, want)
		}
	}
}

// checkRandom is checkStream with pieces of random sizes.
func checkRandom(t *testing.T, text string, seed uint64) {
	t.Helper()
	whole, _ := announce.Visible(text)
	random := rand.New(rand.NewPCG(seed, 1))
	var s announce.Stream
	var out strings.Builder
	for rest := text; rest != ""; {
		n := min(len(rest), random.IntN(1+random.IntN(40)))
		out.WriteString(s.Write(rest[:n]))
		rest = rest[n:]
	}
	if got, want := out.String()+s.Close(), announce.Redact(whole); got != want {
		t.Fatalf("%q, seed %d\nshows %q,\nwhole %q", text, seed, got, want)
	}
}

// streamTexts have every form that the recognisers of Visible and of Redact know.
var streamTexts = []string{
	// Thoughts and memory.
	"Hello <think>x</think> world!", "<think>a<think>b</think>c</think>d", "a</think>b",
	"<think>use <think> here</think>Answer", "<think>\n```go\nx :=\n</think>\nAnswer",
	"<think>\n```\n</think>\n```\nx</think>y", "<think>`</think>`</think>y",
	"<\u200bthi\u00adnk>x</th\u2060ink>y", "<think a=\"<b>\" b='>'>x</think>y", "a<final>ok</final>",
	"A<relevant-memories k=1>x</relevant-memories>B", "x <thinké> <think", "<mm:think>x</mm:think>y",
	// Calls.
	`a <function_calls>{"name":"</function_calls>\""}</function_calls> Done.`, "Use <tool_call> here.",
	"prefix\n<tool_call\n{\"name\":\"find\"}", `ok <tool_calls>[{"name":"x"}`, "a <tool_call/> b",
	"a <tool_call> b </tool_call> c </tool_call>d", "<tool_result>{}</tool_call>z",
	"a<tool_call><tool_call><function=x></tool_call>y</tool_call>b",
	"a <tool_call><function>x</function></tool_call>b", "<tool_call>\n<function>\nx",
	"A<invoke name=\"x\">y</invoke></minimax:tool_call>B", "A<invoke>y</invoke>B",
	"minimax:tool_call <invoke>docs</invoke> x", "<minimax:tool_call><invoke> `</invoke>` x",
	// Brackets.
	"[Tool Call: x (ID: 1)]\r\nArguments: {\"a\":\"}\\\"\"}\r\nBye", "D [Tool Call: x]\nArguments: [] E",
	"[Tool Call: x]\nArguments: \"a\\\"b\"\nBye", "[Tool Call: x]\narguments text\r\nBye",
	"[Tool Call: x]\nArguments: {\"a\":1\nrest", "a\n[Historical context: x {\"a\":[1]} b]\nc",
	"a [Historical context: x] b", "[Tool Result for ID 1]\nA [b]\n[Tool Call: x]\nrest",
	"pre\n[Tool Result: s]\nout", "The [Tool Result] section.", "[link](x) [1] [[wiki]] [ [x] ]",
	"[[reply_to_current]] Hello", "[ [ Reply_To : 5 ] ]\nHello", "a [[audio_as_voice]]  b",
	"[[reply_to:5 a\n\nb]] Hello", "[[reply_to:[[audio_as_voice]]5]] Hello",
	// Control tokens, code, echoes.
	"<|a|>Here<|b|>", "First<|user|><｜x｜>second <|", "<|a<|b|>c|>x", "<th<think>a</think>ink>secret",
	"```\n<think>a</think>\n```\n<think>h</think>v", "~~~~x\n~~~\n<|x|>\n~~~~\n<|y|>z", "I`ll <|x|> don`t",
	"Start `unclosed <think>h</think> end", "`<think>` ``a`<|x|>`` b", "- a\n    ```\n    <|x|>\n    ```",
	"Sure:\n> <<<completion n1>>>\n> k\n> <<<end of completion n1>>>\nDone.", "x <<<completion n>>> y",
	"x <<<completion n>>>z<<<end of completion n>>> y", "Said: <<<completion n>>>\nx",
	"a\n<<<end of completion n1>>>\nb", "a\n> Stats: runtime 1s • tokens n/a • sessionKey k\nBye",
	"[message from \"Ann\", id 4711] a\nb", "> [mess<think>a</think>age from id \"1\"] a\nb",
	"1. [Offshoot] The session agent:main:main has sent you a message:\nHi", "[message from \"Ann\", id",
	"<<<comp<<<completion x>>>letion y>>> z", "<<<completion ", "Stats: runtime 1s\nStats",
	"First `<think>\nmore` then", "First `use [THINK] to\nbegin` then", "A `x <|channel|>analysis\n`", "`a\n<think>x</think>\nb`",
	"``a <tool_call>{\n`b` `` c", "`a\n<think>`b",
	"- session key: agent:main:main\n- status: x\nBye", "(Stats: runtime 1s • tokens n/a • sessionKey k)\nx", "a\n**Stats:** runtime 1s • sessionKey k",
	"a <invoke name=\"x\"></invoke> b", "a\n<parameters>\n</parameters>\nb", "<tool_use></tool_use>a", "<invoke name=\"x\"><parameter name=\"a\"></parameter></invoke>b",
	// Marks of templates.
	"[INST] a [/INST] b", "[THINK]a[/THINK]b", "x [THINK] y",
	"<|think|>a<|/think|>b", "x <|thinking|> y", "<unused94>thought\na<unused95>b",
	"<think_never_used_ab12>a</think_never_used_ab12>b", "a:contentReference[oaicite:0]{index=0} b",
	"a\nfunctools[\"a\"] b", "<longcat_think>a</longcat_think>b",
	"<|begin_of_thought|>a<|begin_of_solution|>b", "[TOOL_CALLS]exec[CALL_ID]a[ARGS]{\"a\":1} b", "[TOOL_CALLS]x y",
	"<s>a</s>", "<s>a</s> b", "a</s>USER: b ASSISTANT: c", "[gMASK]<sop>a", "[IMG][IMG_END]a", "a[EOS]", "[|user|]a[|assistant|]b",
	"]~b]user\na[e~[\n]~b]ai\nb[e~[", "<start_of_turn>user\na<end_of_turn>\n<start_of_turn>model\nb", "<|turn>model\na<turn|>",
	"<|channel>thought\na<channel|>b", "<|tool_call>call:x{}<tool_call|>b", "<SPECIAL_11>User\na<SPECIAL_11>Assistant\nb", "a<unused9>",
	">>>all\na\n>>>exec\n{\"a\":1}\nb", "a\nfunctools[{\"a\":1}] b", ">>ANSWER<<a", "✿FUNCTION✿: a\n✿RETURN✿: b", "◁think▷a◁/think▷b",
	"a【4†b】c", "a {render_inline_citation id=\"1\"} b", "a\ue200cite\ue202turn0\ue201b", "a\ue200cite b", "a\n\nHuman:\n", "a\nUser: b",
	"a./nothink", "\n\nAssistant: a", "<tool_response>a</tool_response>b", "a <tools> b", "<tools>[{}]</tools>b", "<cite index=\"1\">a</cite><cite>b</cite>",
	"<tool_call>exec\n<arg_key>a</arg_key>\n</tool_call>b", "<function=x>{\"a\":1}</function>b", "<function_calls>x(a=1)</function_calls>b",
	"<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"x\">a</｜DSML｜invoke></｜DSML｜function_calls>b", "<|open|>think<|sep|>a<|close|>think<|sep|>b",
	"<|from|>a\n<|recipient|>exec\n<|content|>b<|stop|>c", "<<SYS>>a<</SYS>>b", "<<<COMPLETION N1>>>\na\n<<<end OF completion n1>>>\nb",
	// Silence.
	"NO_REPLY", " **NO_REPLY** ", "Done. NO_REPLY", "Report\n\n**no_reply**\n", "a NO_REPLY HEARTBEAT_OK",
	"NO_REPLY but more", "x\nANNOUNCE_SKIP.", "ANNOUNCE_SKI", "NO_NO_REPLY", "<tool_call>[ NO_REPLY",
	"`NO_REPLY`", "...", "\u200b ", " \ufeff\t hello \n", "x\u00a0\u200b",
	// Secrets.
	"OPENAI_API_KEY=sk-1234567890abcdef x", `{"token":"abcdef1234567890ghij", "a":1}`, "TOKEN=short z",
	"curl --token abcdef1234567890ghij https://x", "Authorization: Bearer abcdef1234567890ghij\nx",
	"bearer abcdef1234567890ghij.x", "sk-abc sk-abcdefgh AKIAIOSFODNN7EXAMPLE.",
	"x bot123456789:abcdefghijklmnopqrstUVWX/getMe", "t eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcdefghijklmnop!",
	"x -----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY----- y",
	"-----BEGIN PRIVATE KEY-----abc-----END PRIVATE KEY----- y", "-----BEGIN PRIVATE KEY-----\nabc",
	"-----BEGIN PUBLIC KEY-----\nabc", "postgres://u:p4ss@h/db", "https://host:80/a?b=c@d",
	`{"token":"a\"abcdef1234567890ghij"}`, "TOKEN=$MY_TOKEN KEY=${KEY_2} KEY=$x", "API_KEY=\nPORT=8080",
	"API_KEY=\nabcdef1234567890ghij", "https://x/?key=abcdef1234567890ghij&page=2", "token: Bearer abcdefg h",
	"Set-Cookie: sid=abcdef1234567890; Path=/\nnext", "https://hooks.slack.com/services/T0/B0/abc x",
	"https://discord.com/api/webhooks/123/abc x", `{"password":["a]b\"]", "c"]} d`, "password: [] {{x}}",
	`curl -d "{\"password\":\"hunter2\"}" x`, "TOKEN=\"never closed\nx", "KEY='a b' c", "ghp_0123456789abcdefghij",
	"curl -u ann:hunter2pw x\nmysql -phunter2pw db", "docker login -u a -p hunter2pw r", "machine h login a password hunter2\n",
	"tokens:\n  - abcdef1234567890ghij\n  - zyxwvu0987654321tsrq\nb: c", "password: |\n  hunter2\n  pw\nb: c",
	"root:hunter2@tcp(db:3306)/x", "db.x:5432:app:ann:hunter2pw\n", "echo hunter2pw | docker login --password-stdin\n",
	"PASSWORD=\x1b[1mhunter2\x1b[0mpw x", "password%3Dhunter2pw%26a%3Db", "<password>hunter2</password>", "\\nghp_0123456789abcdefghij",
	"ghp_0123456789\u200babcdefghij", "ghp_0123456789abcdef0123\n456789abcdef0123\nx", "&quot;password&quot;:&quot;hunter2&quot;",
	"{\"name\":\"DB_PASSWORD\",\"value\":\"hunter2\"}", "| password | hunter2pw |", "**Password:** hunter2pw", "password => 'hunter2'",
	"https://hooks.zapier.com/hooks/catch/123456/abcdef/ x", "passwd --stdin <<< hunter2pw\n", "the password is hunter2pw.", "key: id token: 5",
	"eyJhbGciOiJkaXIiLCJlbmMiOiJBMjU2R0NNIn0..48V1_ALb6US04U3b.5eym8TW_c8SuK0ltJ3rpYIzOeDQz7TALvtu6UG9oMo4vpzs9tX_EFShS8iB7j6ji",
	"password=k3J9x8Qp2(", "password=k3J9x8Qp2(a, b) c", "password=k3J9x8Qp2[\nx]", "abc8Q~abcdefghijklmnopqrstuvwxyz01234567 x", "MTAxMjM0NTY3ODkwMTIzNDU2.GabcDE.abcdefghijklmnopqrstuvwxyz0123 x",
	"prose with k\u00e4se \u4f60\u597d \U0001F469\u200d\U0001F680 1 < 2 and [a](b) `c` <b>d</b>", "a\xff\xc3", "\xe2\x82",
}

// D5: every form is recognised wherever the text is cut once or twice, and byte by byte, whatever
// stands before and behind it.
func TestStreamOfEveryFormCutEverywhere(t *testing.T) {
	skipUnderRace(t)
	t.Parallel()
	for _, form := range streamTexts {
		for _, text := range []string{
			form, "Prose.\n" + form + "\nMore prose.", "a " + form + " NO_REPLY", form + form, "x" + form,
		} {
			whole, _ := announce.Visible(text)
			want := announce.Redact(whole)
			for i := range len(text) + 1 {
				var s announce.Stream
				got := s.Write(text[:i]) + s.Write("") + s.Write(text[i:]) + s.Close()
				require.Equal(t, want, got, "%q cut at %d", text, i)
				var three announce.Stream
				j := min(i+1, len(text))
				got = three.Write(text[:i]) + three.Write(text[i:j]) + three.Write(text[j:])
				require.Equal(t, want, got+three.Close(), "%q cut at %d and %d", text, i, j)
			}
			checkStream(t, text, 1, 2, 3, 5)
		}
	}
}

// randomText returns a text of tokens.
func randomText(random *rand.Rand) string {
	var b strings.Builder
	for range 1 + random.IntN(12) {
		switch random.IntN(3) {
		case 0:
			tokens := [][]string{visibleTokens, templateTokens}[random.IntN(2)]
			b.WriteString(tokens[random.IntN(len(tokens))])
		case 1:
			b.WriteString(redactTokens[random.IntN(len(redactTokens))])
		default:
			form := streamTexts[random.IntN(len(streamTexts))]
			from := random.IntN(len(form))
			b.WriteString(form[from : from+random.IntN(len(form)-from+1)])
		}
	}
	return b.String()
}

// removedPieces go wherever they stand, and put together what they stood between.
var removedPieces = []string{
	"<||>", "<|x|>", "<final>", "[[audio_as_voice]]", "</tool_call>", "[Tool Result]", "</s>", "【4†a】",
	"<<<completion a>>>", "<think>x</think>", "\u200b", "\x1b[1m",
}

// brokenText returns a text of few different pieces: markers that are cut in two, what goes between
// them, and the characters with which markers and silent tokens begin and end. Halves that an
// earlier pass has put together are met often in it.
func brokenText(random *rand.Rand) string {
	markers := slices.Concat(visibleTokens, templateTokens, []string{
		"<tool_calls>", "</tool_calls>", "</toolcall>", "<function_calls>", "<final>", "[e~[", "{\"",
	})
	const singles = "<>[]|/~{}\"'`:=_.-*e NnHhAUS\n"
	alphabet := make([]string, 0, 8)
	for range 3 + random.IntN(5) {
		switch piece := markers[random.IntN(len(markers))]; random.IntN(5) {
		case 0:
			alphabet = append(alphabet, piece)
		case 1, 2:
			at := random.IntN(len(piece) + 1)
			alphabet = append(alphabet, piece[:at], piece[at:])
		case 3:
			at := random.IntN(len(singles))
			alphabet = append(alphabet, singles[at:at+1])
		default:
			alphabet = append(alphabet, removedPieces[random.IntN(len(removedPieces))])
		}
	}
	var b strings.Builder
	for range 3 + random.IntN(10) {
		b.WriteString(alphabet[random.IntN(len(alphabet))])
	}
	return b.String()
}

// D5: a text of broken markers shows the same in all pieces. What a look at the text notes as read,
// which the guard asks for, does not depend on how much of the text has come,
// and nothing is decided before what it depends on has come.
func TestStreamOfBrokenMarkers(t *testing.T) {
	t.Parallel()
	checkStream(t, "<tool_calls>[e</<||>toolcall>", 1, 2, 3, 100)
	checkStream(t, "<think><think></think>`</think>>`", 1, 2, 3, 31, 32)
	checkStream(t, ">>ANSWER<<<｜DSML｜<｜DSML｜<｜DSML｜>>ANSWER<<<｜DSML｜<｜DSML｜>>ANSWER<<", 1, 2, 3)
	random := rand.New(rand.NewPCG(3, 5))
	texts := 30_000
	if underRace {
		texts /= 10
	}
	for range texts {
		text := brokenText(random)
		checkStream(t, text, 1, 4)
		checkRandom(t, text, random.Uint64())
	}
}

// D5: random texts of tokens, in random pieces. What is visible is visible as it is.
func TestStreamOfRandomTokens(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	texts := 10_000
	if underRace {
		texts /= 5
	}
	for range texts {
		text := randomText(random)
		checkStream(t, text, 1, 3)
		checkRandom(t, text, random.Uint64())
		shown, ok := announce.Visible(text)
		again, stillOK := announce.Visible(shown)
		require.Equal(t, shown, again, "%q", text)
		require.Equal(t, ok, stillOK, "%q", text)
	}
}

// ownSecrets are registered secrets: words, some that repeat themselves, some with blanks or marks,
// and some with lines of their own. Of ownTokens random texts have many parts of them.
var (
	ownSecrets = []string{
		"hunter2hunter2", "one two> three", "-----BEGIN X-----\nab/c\n+d-e\n\n/fgh=\n-----END X-----\n",
		"a: b1\n  c: d2\n", `\\\\\\x`, "aaaaaaab", "- x - y - z", "Pa@ss_w*rd#9",
	}
	ownTokens = []string{
		"hunter2", "hun", "ter2", "one", "two>", "three", " ", "> ", "// ", "\n", "\r\n", "\n> ", "\n\n\n\n\n",
		`\n`, "-----BEGIN X-----", "ab/c", "+d-e", "/fgh=", "-----END X-----", "a:", "b1", "c:", "d2", `\\`, `\`, "x",
		"aaaa", "ab", "- ", "x - ", "y", "z", "Pa@", "ss_", "w*rd", "#9", "\u200b", "%0A", "&gt;", "%3E", "\\u000a",
		"* ", "***", "\x1b[1m", "<|x|>", "<|a|><|b|>", "=\n", "&#10;", "%2F", "|", ";", "#", "+", "\u2028", "\t", "\v",
	}
)

// ownRedactor returns the Redactor of ownSecrets.
var ownRedactor = sync.OnceValue(func() *announce.Redactor {
	r, err := announce.NewRedactor(announce.Redaction{Secrets: ownSecrets})
	if err != nil {
		panic(err)
	}
	return r
})

// checkOwn checks that a Stream of ownRedactor shows what it shows of the whole text, and that
// what it shows stays as it is.
func checkOwn(t *testing.T, text string, sizes ...int) {
	t.Helper()
	r := ownRedactor()
	whole, _ := announce.Visible(text)
	want := r.Redact(whole)
	for _, n := range sizes {
		if got := streamedBy(r.Stream(), text, n); got != want {
			t.Fatalf("%q by %d bytes\nshows %q,\nwhole %q", text, n, got, want)
		}
	}
	if again := r.Redact(want); again != want {
		t.Fatalf("%q\nshows %q,\nand then %q", text, want, again)
	}
}

// ownText returns a text of secrets and parts of them, whose lines are quoted or indented.
func ownText(random *rand.Rand) string {
	prefix, end := "", "\n"
	if random.IntN(2) > 0 {
		prefix = []string{"> ", "    ", "// ", "\t", "+ ", "> > "}[random.IntN(6)]
		end = []string{"\n", "\r\n", "\n\n", `\n`, "%0A"}[random.IntN(5)]
	}
	var b strings.Builder
	for range 1 + random.IntN(16) {
		switch random.IntN(8) {
		case 0:
			secret := ownSecrets[random.IntN(len(ownSecrets))]
			b.WriteString(strings.ReplaceAll(secret, "\n", end+prefix))
		case 1:
			b.WriteString(strings.Repeat(ownTokens[random.IntN(len(ownTokens))], random.IntN(9)))
		default:
			b.WriteString(ownTokens[random.IntN(len(ownTokens))])
		}
	}
	return b.String()
}

// D5: registered secrets in random texts are masked the same in all pieces, and what was masked
// stays as it is.
func TestStreamOfOwnSecrets(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(16, 2))
	texts := 20_000
	if underRace {
		texts /= 10
	}
	masked := 0
	for range texts {
		text := ownText(random)
		checkOwn(t, text, 1, 3+random.IntN(20))
		if strings.Contains(ownRedactor().Redact(text), "***") {
			masked++
		}
	}
	require.Greater(t, masked, texts/10)
}

// FuzzStreamOfOwnSecrets checks that a Stream with registered secrets shows what is shown of the
// whole, byte by byte and in pieces.
func FuzzStreamOfOwnSecrets(f *testing.F) {
	for i, text := range ownTokens {
		f.Add(text+ownTokens[(i+7)%len(ownTokens)], uint8(i))
	}
	for i, secret := range ownSecrets {
		for _, prefix := range []string{"", "> ", "    ", "// "} {
			f.Add("so:\n"+prefix+strings.ReplaceAll(secret, "\n", "\n"+prefix)+" ok", uint8(i))
			f.Add(strings.Join(strings.Split(secret, ""), "\n\n"+prefix), uint8(i))
		}
	}
	f.Fuzz(func(t *testing.T, text string, size uint8) {
		checkOwn(t, text, 1, 2, 1+int(size))
	})
}

// FuzzStream checks that a Stream shows what is shown of the whole, byte by byte and in random
// pieces.
func FuzzStream(f *testing.F) {
	for i, text := range slices.Concat(streamTexts, visibleTokens, templateTokens, redactTokens) {
		f.Add(text, uint64(i))
	}
	for i, row := range readMarkup(f) {
		f.Add(row.Input, uint64(i))
	}
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		checkStream(t, text, 1, 2, 3)
		checkRandom(t, text, seed)
	})
}

// A line of the runtime that goes on otherwise from any of its places is read as the whole of it,
// wherever the text is cut: a word that ends with what has come may go on.
func TestStreamOfLinesThatGoOnOtherwise(t *testing.T) {
	skipUnderRace(t)
	t.Parallel()
	lines := append(slices.Collect(strings.Lines(testEvent(func(*spawn.Completion) {}).ForModel())),
		"(Stats: runtime 1s • tokens n/a • sessionKey k", "Stats: runtime 1s • sessionId  8f3a",
		"**Stats:** runtime 1s • transcript /x", "Stats: runtime 1s • steersMissed 1",
		"- session key: unknown", `[message from "Ann", id 4711] a`,
		"[Offshoot] The session agent:main:main has sent you a message: a")
	for _, line := range lines {
		line = strings.TrimSuffix(line, "\n")
		for at := range len(line) + 1 {
			for _, other := range []string{"a", " a", "[Tool Result]$", "<|a|>b", "\nBye."} {
				text := line[:at] + other
				whole, _ := announce.Visible(text)
				want := announce.Redact(whole)
				for i := max(0, at-2); i <= len(text); i++ {
					var s announce.Stream
					got := s.Write(text[:i]) + s.Write(text[i:]) + s.Close()
					require.Equal(t, want, got, "%q cut at %d", text, i)
				}
			}
		}
	}
}
