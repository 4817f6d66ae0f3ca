package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheck(t *testing.T) {
	t.Setenv("OPENCLAW_HOME", t.TempDir())
	t.Setenv("OPENCLAW_CONFIG_PATH", "")
	good, bad := filepath.Join(t.TempDir(), "good.json"), filepath.Join(t.TempDir(), "bad.json")
	require.NoError(t, os.WriteFile(good, []byte("{gateway: {}, session: {threadBindings: {ttlHours: 1}}}"), 0o600))
	require.NoError(t, os.WriteFile(bad, []byte("{\n nope: 1, agents: {nope: 2},\n}"), 0o600))
	old := filepath.Join(t.TempDir(), "old.json")
	require.NoError(t, os.WriteFile(old, []byte("{gateway: {port: 1}, session: {}}"), 0o600))
	for _, c := range []struct {
		args      []string
		status    int
		out, errs string
	}{
		{[]string{good}, 0, "Without effect:\n  " + good + ":1:2: gateway: the program is the gateway\n", ""},
		{[]string{good}, 0, "ttlHours: it is read as idleHours\n", ""},
		{[]string{good}, 0, "The file can be used.\n", ""},
		{[]string{bad}, 1, "", bad + ":2:20: agents.nope: it is not known\nMistakes: 1\n"},
		{[]string{"-strict", bad}, 1, "", "Mistakes: 2\n"},
		{[]string{filepath.Join(t.TempDir(), "gone")}, 1, "", "no such file"},
		{[]string{}, 1, "", "openclaw.json"},
		{[]string{good, bad}, 2, "", "Usage:"},
		{[]string{"-since", good, good}, 0, "The file can be used.\n", ""},
		{[]string{"-since", old, good}, 0, "Changed since " + old + ":\n  " + good + ":1:11: gateway: " +
			"without effect: the program is the gateway\n  " + good + ":1:52: session.threadBindings.idleHours: " +
			"needs a restart: the Runtime has Config.Threads", ""},
		{[]string{"-since", bad, good}, 1, "", "Mistakes: 1\n"},
		{[]string{"-x"}, 2, "", "Usage:"},
		{[]string{"-h"}, 0, "", "-strict"},
		{[]string{"-schema"}, 0, `"$schema"`, ""},
		{[]string{"-schema", good}, 2, "", "Usage:"},
	} {
		var out, errs bytes.Buffer
		require.Equal(t, c.status, run(t.Context(), c.args, &out, &errs), "%v: %s%s", c.args, &out, &errs)
		require.Contains(t, out.String(), c.out, "%v", c.args)
		require.Contains(t, errs.String(), c.errs, "%v", c.args)
	}
}
