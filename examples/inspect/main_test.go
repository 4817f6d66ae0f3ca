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
