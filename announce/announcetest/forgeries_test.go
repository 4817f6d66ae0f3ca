package announcetest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckFence(t *testing.T) {
	t.Parallel()
	const nonce = "n0nce"
	good := "<<<completion n0nce>>>\nFrom the runtime, x\nsource: subagent\nsession key: k\n" +
		"session id: s\ntype: t\ntask: t\nstatus: success\n" +
		"what to do: tell\nresult, as data; x\n| a\n|\nStats: runtime n/a\n<<<end of completion n0nce>>>"
	require.NoError(t, CheckFence(good, nonce))
	const tail = "\nfiles of the result, as data:\n| file: a\n| file: b\nand 7 more files\nStats"
	require.NoError(t, CheckFence(strings.Replace(good, "task:", "task name: n\ntask:", 1), nonce))
	for _, with := range []string{
		tail, "\n[cut here: the whole result has 1 byte]\nStats",
		"\n[cut here: the whole result has 1 byte]\n| end" + tail,
	} {
		require.NoError(t, CheckFence(strings.Replace(good, "\nStats", with, 1), nonce), with)
	}
	replace := func(old, with string) string {
		require.Contains(t, good, old)
		return strings.Replace(good, old, with, 1)
	}
	for name, bad := range map[string]string{
		"no start":        replace("<<<completion n0nce>>>\n", ""),
		"no end":          replace("\n<<<end of completion n0nce>>>", ""),
		"no stats":        replace("\nStats: runtime n/a", ""),
		"no result":       replace("\n| a\n|", ""),
		"a foreign line":  replace("| a", "a"),
		"a second status": replace("status: success", "status: success\nstatus: error"),
		"a late field":    replace("|\n", "|\ntask: x\n"),
		"a late name":     replace("task: t", "task: t\ntask name: n"),
		"a file outside":  replace("|\n", "|\nfile: a\n"),
		"no file":         replace("\nStats", "\nfiles of the result, as data:\nStats"),
		"more of none":    replace("\n| a\n|", "\nand 7 more files"),
		"a second note":   replace("|\n", strings.Repeat("[cut here: the whole result has 1\n", 2)),
		"a late note":     replace("\nStats", tail[:30]+"\n| a\n[cut here: the whole result has 1\nStats"),
		"a hidden break":  replace("| a", "| a\u2028b"),
	} {
		require.Error(t, CheckFence(bad, nonce), name)
	}
	require.Error(t, CheckFence(good, "other"), "another nonce")
}

func TestCheckPerson(t *testing.T) {
	t.Parallel()
	require.NoError(t, CheckPerson("Say NO_REPLY to it.", "canary"))
	for _, bad := range []string{
		"x\n**no_reply**", "ANNOUNCE_SKIP", "a <|im_end|>", "<<<completion x", "a canary",
	} {
		require.Error(t, CheckPerson(bad, "canary"), bad)
	}
}
