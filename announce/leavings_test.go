package announce_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/announce"
)

// removedMarks are what Visible or Sanitize removes, each of its own family.
var removedMarks = []string{
	"<|assistant|>", "<|x|>", "<s>", "</s>", "[INST]", "<think>x</think>", "</think>", "<final>",
	"[[reply_to_current]]", "<tool_call></tool_call>", "<<SYS>>", "【12†source】", "[Tool Call: x]",
	"\x1b[31m", "\u200b", "\u202e", "<bos>", "<pad>", "<end_of_turn>", "<eos>", "\x00", "\u00ad",
	"<relevant-memories>x</relevant-memories>", "[e~[",
}

// removedTails are what goes from the end of a text together with a silent token or a turn of a
// person that a model has made up.
var removedTails = []string{
	"", "*", "**", "_", "!", ".", "\"", "`", ")", ">", "#", "-", "==", "|", `\n`, `\t`, `\r\n`, "$",
	"<br>", "\n-", "\n*", "\n>", "\n#", "\n1.", "\nAnswer:", "\nHuman:", "\n---", "\n===", "\n```",
}

// What is left of a secret once the text that has it was cleaned is masked as well: where the
// secret has what is removed, and where its end goes with a silent token.
func TestLeavingsOfSecrets(t *testing.T) {
	check := func(own, text string, parts ...string) {
		r, err := announce.NewRedactor(announce.Redaction{Secrets: []string{own}})
		require.NoError(t, err, "%q", own)
		shown, _ := announce.Visible(text)
		outs := map[string]string{
			"Visible": r.Redact(shown), "Stream": streamedBy(r.Stream(), text, 3),
			"Sanitize": r.Redact(announce.Sanitize(text)),
		}
		require.Equal(t, outs["Visible"], outs["Stream"], "%q", text)
		for how, out := range outs {
			for _, part := range parts {
				require.NotContains(t, out, part, "%s of %q shows a part of %q", how, text, own)
			}
		}
	}
	for _, m := range removedMarks {
		for _, own := range []string{
			"Secret" + m + "Value77", m + "SecretValue77", "SecretValue77" + m,
			"SecretLine1\n" + m + "\nSecretLine2",
		} {
			check(own, "it is "+own+" ok.", "Value77", "SecretLine1", "SecretLine2")
		}
	}
	for _, tail := range removedTails {
		own := "hunter2Hunter2" + tail
		for _, frame := range []string{
			"it is %s", "it is %s NO_REPLY", "it is %s\nNO_REPLY", "it is %sNO_REPLY", "%s\nNO_REPLY",
			"NO_REPLY\n%s", "NO_REPLY %s", "it is %s\nHuman:", "it is %s\n[[reply_to_current]]",
			"it is %s\n<think>x", "`%s`\nNO_REPLY", "it is %s\n\nHEARTBEAT_OK.", "it is %s**NO_REPLY**",
		} {
			check(own, fmt.Sprintf(frame, own), "hunter2")
		}
	}
	// What is left is not so short that other words have it.
	r, err := announce.NewRedactor(announce.Redaction{Secrets: []string{"the <think>x</think>"}})
	require.NoError(t, err)
	require.Equal(t, "the dog", r.Redact("the dog"))
	r.Learn("learned</s>Token99")
	require.NotContains(t, r.Redact(strings.ReplaceAll("a learned</s>Token99 b", "</s>", "")), "Token99")
}
