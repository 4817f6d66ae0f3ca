package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const child = "agent:main:subagent:6f1c2a52-7d1c-4f7e-9a30-0d6f5b0e3c11"

// inspected runs the program on a workspace with two files.
func inspected(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "AGENTS.md"), []byte("Be kind.\x1b[31m\n"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "SOUL.md"), []byte("Be bold.\n"), 0o644))
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "DIR", dir)
	}
	return output(t, time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC), args...)
}

func TestPrompt(t *testing.T) {
	code, out, errs := inspected(t, "-workspace", "DIR", "-session", "agent:main:main")
	require.Zero(t, code, errs)
	assert.Contains(t, out, "Be kind.")
	assert.Contains(t, out, "Be bold.")
	assert.NotContains(t, out, "\x1b", "a file cannot speak to the terminal")
	assert.Contains(t, out, "21 November 2026")

	_, out, _ = inspected(t, "-workspace", "DIR", "-session", child)
	assert.Contains(t, out, "Be kind.")
	assert.NotContains(t, out, "Be bold.")
	assert.Contains(t, out, "## Subagent Context")
}

func TestReportModeDiff(t *testing.T) {
	_, out, _ := inspected(t, "-workspace", "DIR", "-session", child, "-report")
	for _, want := range []string{"mode minimal", "SECTION", "AGENTS.md", "missing: absent"} {
		assert.Contains(t, out, want)
	}
	_, out, _ = inspected(t, "-workspace", "DIR", "-session", "agent:main:main", "-mode", "none")
	assert.Equal(t, "You are a personal assistant.\n", out)

	_, out, _ = inspected(t, "-workspace", "DIR", "-session", "agent:main:main", "-diff", child)
	assert.True(t, strings.HasPrefix(out, "--- agent:main:main (full)\n+++ "+child+" (minimal)\n"))
	assert.Contains(t, out, "\n-Be bold.\n")
	assert.Contains(t, out, "\n+## Subagent Context\n")
	assert.NotContains(t, out, "\n-Be kind.")
	_, out, _ = inspected(t, "-workspace", "DIR", "-session", "agent:main:main", "-diff", "agent:main:main")
	assert.Contains(t, out, "no difference")
}

func TestBadInput(t *testing.T) {
	for want, args := range map[string][]string{
		"-workspace is missing":      {"-session", "agent:main:main"},
		"-session is missing":        {"-workspace", "DIR"},
		"invalid value \"nonsense\"": {"-workspace", "DIR", "-session", "nonsense"},
		"unknown mode \"loud\"":      {"-workspace", "DIR", "-session", "agent:main:main", "-mode", "loud"},
		"unexpected argument":        {"-workspace", "DIR", "-session", "agent:main:main", "more"},
		"flag provided but":          {"-x"},
		"(or -state: a directory":    {},
		"-repair needs -state DIR":   {"-repair"},
		"-retry needs -state DIR":    {"-retry", "KEY"},
		"-mode is for the prompt":    {"-state", "DIR", "-mode", "full"},
	} {
		code, out, errs := inspected(t, args...)
		assert.Equal(t, exitUsage, code, want)
		assert.Empty(t, out)
		assert.Contains(t, errs, want)
		assert.Equal(t, 2, strings.Count(errs, "\n"), "said once: %s", errs)
	}
	for _, dir := range []string{"DIR/none", "DIR/AGENTS.md"} {
		code, out, errs := inspected(t, "-workspace", dir, "-session", "agent:main:main")
		assert.Equal(t, exitError, code)
		assert.Empty(t, out)
		assert.Contains(t, errs, "inspect: workspace: ")
	}
	for _, args := range [][]string{{"-h"}, {"-state", "DIR", "-h"}} {
		code, out, errs := inspected(t, args...)
		assert.Equal(t, exitOK, code)
		for _, option := range []string{"-workspace", "-diff", "-state", "-repair", "-dismiss"} {
			assert.Regexp(t, `(?m)^  `+option+`\b`, out, "both modes")
		}
		assert.Empty(t, errs)
	}
}

// C3: each broken SKILL.md is named with its reason, in a list of skills and beside a prompt.
func TestSkills(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"good":   "---\ndescription: does good\n---\n",
		"hidden": "---\ndescription: x\ndisable-model-invocation: true\n---\n",
		"picky":  "---\ndescription: x\nmetadata: {openclaw: {requires: {bins: none, env: NONE_X}}}\n---\n",
		"broken": "# no head\x1b[31m", "mute": "---\nname: mute\n---\n",
	} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name, "SKILL.md"), []byte(text), 0o644))
	}
	broken := "inspect: skill " + dir + "/broken/SKILL.md: there is no front matter between lines of ---\n" +
		"inspect: skill " + dir + "/mute/SKILL.md: the front matter has no description\n"
	code, out, errs := inspected(t, "-skills", dir)
	assert.Equal(t, exitError, code)
	assert.Equal(t, broken, errs)
	assert.Regexp(t, `(?m)^good +/good +\S+/good/SKILL.md +in the prompt$`, out)
	assert.Regexp(t, `(?m)^hidden +/hidden +\S+/hidden/SKILL.md +hidden from the prompt$`, out)
	assert.Regexp(t, `(?m)^picky .*needs the program "none" and the variable "NONE_X"$`, out)

	code, out, errs = inspected(t, "-workspace", "DIR", "-session", "agent:main:main", "-skills", dir)
	assert.Equal(t, exitError, code)
	assert.Equal(t, broken, errs)
	assert.Contains(t, out, "<name>good</name>")
	assert.NotContains(t, out, "<name>hidden</name>")
	_, out, _ = inspected(t, "-workspace", "DIR", "-session", "agent:main:main", "-skills", dir, "-report")
	assert.Regexp(t, `(?m)^broken/SKILL.md .*there is no front matter`, out)

	require.NoError(t, os.RemoveAll(filepath.Join(dir, "broken")))
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "mute")))
	code, _, errs = inspected(t, "-skills", dir, "-skills", dir)
	assert.Zero(t, code, errs)
	code, _, errs = inspected(t, "-skills", filepath.Join(dir, "none"))
	assert.Equal(t, exitError, code)
	assert.Contains(t, errs, "inspect: skills: ")
	code, _, errs = inspected(t, "-skills", "")
	assert.Equal(t, exitUsage, code, errs)
}
