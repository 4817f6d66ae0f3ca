package announce_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/announce"
)

// proseAboutTags are texts that people read to the end, with the place of one or more tags in them.
var proseAboutTags = map[string]string{
	"sentence":           "You must set %s in the file. Then restart, or you lose data.",
	"at the begin":       "%s is the tag to set. Then restart, or you lose data.",
	"at the end":         "Restart, or you lose data, after you have set %s",
	"alone":              "%s",
	"line of its own":    "Set this:\n%s\nThen restart, or you lose data.",
	"first line":         "%s\n\nThen restart, or you lose data.",
	"in a list":          "Set these:\n- %s\n- the port\n\nThen restart.",
	"in a numbered list": "1. %s is set\n2. the port is set\n\nThen restart.",
	"with check boxes":   "- [ ] %s [ ] port\n- [x] host\n\nThen restart.",
	"in a heading":       "# The tag %s\n\nSet it, then restart.",
	"in a quotation":     "> set %s in the file\n\nThen restart.",
	"in quotes":          `Write "%s" in the file, 'not' in the shell. Then restart.`,
	"in a table":         "| tag | use |\n|---|---|\n| %s | call |\n\nThen restart.",
	"in bold":            "Set **%s** in the file. Then restart.",
	"before a link":      "Set %s [as described](https://example.com/a?b=c) in the file. Then restart.",
	"before a note":      "Set %s [1] in the file. Then restart.\n\n[1]: see there",
	"in a thought's way": "<think>hm</think>Set %s in the file. Then restart.",
	"before code":        "Set %s like `x <b> y` in the file:\n```\na < b\n```\nThen restart.",
}

// words returns the words of a text, which are its runs of letters.
func words(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) })
}

// S2: a text about tags keeps its words, whichever tag that the sanitizer knows it is about and
// wherever the tag stands. Only a thought and a memory block hide what follows.
func TestProseAboutTagsKeepsItsWords(t *testing.T) {
	skipUnderRace(t)
	t.Parallel()
	shapes := map[string]string{
		"opening": "<%[1]s>", "closing": "</%[1]s>", "empty": "<%[1]s/>",
		"attribute": `<%[1]s name="a">`, "in upper case": "<%[2]s>", "spaced": "< %[1]s >",
		"pair": "<%[1]s> and </%[1]s>", "pair with text": "<%[1]s>text</%[1]s>",
		"repeated": "<%[1]s>, <%[1]s>", "broken off": "<%[1]s",
		"nested":         "<%[1]s> <parameter>",
		"nested deeper":  "<%[1]s><function><parameter>",
		"nested in call": "<tool_call> <%[1]s>",
	}
	for _, name := range announce.TagNames() {
		for shape, format := range shapes {
			text := strings.ReplaceAll(format, "%[1]s", name)
			text = strings.ReplaceAll(text, "%[2]s", strings.ToUpper(name))
			opens := shape != "closing" && announce.HidesToEnd(name)
			for place, prose := range proseAboutTags {
				reply := fmt.Sprintf(prose, text)
				got, _ := announce.Visible(reply)
				if opens {
					before, _, _ := strings.Cut(reply, text)
					want := words(announce.Sanitize(before))
					require.Subset(t, words(got), want, "%s, %s: %q", shape, place, reply)
					continue
				}
				want := words(announce.Sanitize(strings.ReplaceAll(reply, text, " ")))
				require.Subset(t, words(got), want, "%s, %s: %q became %q", shape, place, reply, got)
			}
		}
	}
}

// S2: what is a call stays hidden, also one that breaks off.
func TestCallsStayHidden(t *testing.T) {
	t.Parallel()
	for _, call := range []string{
		"<tool_call>\n<function=exec>\n<parameter=cmd>\nSECRET",
		"<tool_call>\n<function>\n<name>SECRET</name>",
		"<tool_call><function>SECRET</function></tool_call>",
		"<function_calls>\n<invoke name=\"exec\">\n<parameter name=\"cmd\">SECRET",
		"<function_calls><invoke><parameter name=\"cmd\">SECRET</parameter></invoke></function_calls>",
		"<tool_calls><tool_call>{\"name\":\"SECRET",
		"<tool_calls>[ {\"name\":\"SECRET\"}]</tool_calls>",
		"<tool_calls> [\"SECRET",
		"<tool_call><tool_call><tool_call>{\"name\":\"SECRET",
		"<tool_call><function=SECRET",
		"<tool_call [\"SECRET\"]",
	} {
		for _, format := range []string{"%s", "Let me look.\n%s", "Let me look. %s"} {
			reply := fmt.Sprintf(format, call)
			if strings.HasSuffix(format, ". %s") && strings.Contains(call, "<function>\n<name>") {
				continue // on a line with words, tags without attributes are words
			}
			got, _ := announce.Visible(reply)
			require.NotContains(t, got, "SECRET", "%q", reply)
		}
	}
	// Another system's names for the same.
	for _, name := range announce.TagNames() {
		ns, word, ok := strings.Cut(name, ":")
		if !ok || word != "invoke" {
			continue
		}
		invoke, parameter := ns+":invoke", ns+":parameter"
		for _, call := range []string{
			"<" + invoke + " name=\"x\"><" + parameter + " name=\"a\">SECRET</" + parameter + "></" + invoke + ">",
			"<" + invoke + " name=\"x\">\n<" + parameter + " name=\"a\">SECRET",
			"<" + invoke + " name=\"SECRET\"></" + invoke + ">",
		} {
			got, _ := announce.Visible("Let me look. " + call)
			require.Equal(t, "Let me look.", got)
		}
	}
}
