package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
)

// hostile wants to end its line, to turn it around, and to be a line of its own.
const hostile = "x\n9 EVIL\r\x1b[2K\u009b\u202e\u2066\u2028\u2029\u200f\u0085\x7fy"

// requireHarmless fails if a terminal would obey a character of a text, or if a line of it begins
// as a hostile text would have it.
func requireHarmless(t *testing.T, text string) {
	t.Helper()
	for _, r := range text {
		bad := r != '\n' && unicode.IsControl(r) ||
			unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp)
		require.False(t, bad, "%q", text)
	}
	require.NotContains(t, text, "\n9 EVIL")
}

// hostileState is a directory of state in which every text that can be chosen is a text, and what
// each mode lists of it.
func hostileState(t *testing.T, text string) (listings map[string]string) {
	dir := filepath.Join(t.TempDir(), "state")
	refuse := func(agent.Delivery) error { return errors.New(text) }
	bot(t, dir, refuse, func(rt *agent.Runtime) {
		s := rt.Session(top)
		from := session.Sender{ID: "7", Name: text} // Post refuses an ID that breaks a line
		m := agent.Incoming{ID: text, Text: text, From: from}
		require.NoError(t, errorOf(s.Post(t.Context(), m)))
		for _, task := range []string{text, text + " for ever"} {
			_, err := agent.Spawn[string](t.Context(), s, agent.Task{
				Text: task, Key: task, Label: text, Announce: true,
			})
			require.NoError(t, err)
		}
		wait(time.Minute)
	})
	// A file of another program, which Verify names.
	odd := filepath.Join(dir, "sessions", "main", "odd "+strings.Map(func(r rune) rune {
		if r == '/' || r == 0 {
			return -1
		}
		return r
	}, text)+".jsonl")
	require.NoError(t, os.WriteFile(odd, []byte("{\n"), 0o600))
	listings = make(map[string]string)
	for _, mode := range [][]string{
		{},
		{"-json"},
		{"-tree", top.String()},
		{"-json", "-tree", top.String()},
		{"-verify"},
		{"-retry", text},
		{"-retry", "none"},
		{"-repair"},
	} {
		var out, errOut strings.Builder
		run(t.Context(), append([]string{"-state", dir}, mode...), time.Now(), &out, &errOut)
		listings[strings.Join(mode, " ")+" out"] = out.String()
		listings[strings.Join(mode, " ")+" err"] = errOut.String()
	}
	return listings
}

// No text of a directory of state breaks a line of any listing, or is obeyed by a terminal. A
// listing has as many lines as one of plain texts.
func TestHostileTextsOfState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plain := hostileState(t, "plain")
		for mode, text := range hostileState(t, hostile) {
			mode = strings.Replace(mode, hostile, "plain", 1)
			requireHarmless(t, text)
			require.Equal(t, strings.Count(plain[mode], "\n"), strings.Count(text, "\n"),
				"%s:\n%s\n%s", mode, plain[mode], text)
			if strings.HasPrefix(mode, "-json") && strings.HasSuffix(mode, "out") {
				for line := range strings.Lines(text) {
					require.True(t, json.Valid([]byte(line)))
				}
			}
		}
	})
}

// JSON has the values as they are.
func TestHarmlessJSONChangesNoValue(t *testing.T) {
	b, err := json.Marshal([]string{hostile})
	require.NoError(t, err)
	text := harmlessJSON(string(b) + "\n")
	requireHarmless(t, text)
	var back []string
	require.NoError(t, json.Unmarshal([]byte(text), &back))
	require.Equal(t, []string{hostile}, back)
}

// No name or text of a workspace is obeyed by a terminal, and no name breaks a line of a report.
func TestHostileNamesOfAWorkspace(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	name := strings.NewReplacer("/", "", "\x00", "").Replace(hostile)
	write("AGENTS.md", "be kind\u202e\u2028\x1b[31m")
	write("memory/"+name+".md", hostile)
	write("skills/"+name+"/SKILL.md", "---\nname: x\ndescription: y\n---\n")
	for _, mode := range [][]string{
		{"-report"}, {"-report", "-diff", "agent:ops:main"}, {"-diff", "agent:main:subagent:x"}, {},
	} {
		var out, errOut strings.Builder
		args := append([]string{"-workspace", dir, "-session", top.String()}, mode...)
		require.Equal(t, exitOK, run(t.Context(), args, time.Now(), &out, &errOut), errOut.String())
		for _, r := range out.String() {
			require.False(t, r != '\n' && r != '\t' && commands(r), "%q", out.String())
		}
		if len(mode) > 0 && mode[0] == "-report" {
			requireHarmless(t, out.String())
		}
	}
	write("skills/"+name+"2/SKILL.md", "---\nname: \n")
	var out, errOut strings.Builder
	run(t.Context(), []string{"-skills", filepath.Join(dir, "skills")}, time.Now(), &out, &errOut)
	require.NotEmpty(t, out.String())
	requireHarmless(t, out.String())
	requireHarmless(t, errOut.String())
	require.Len(t, strings.Split(strings.TrimSpace(errOut.String()), "inspect: skill"), 1+
		strings.Count(strings.TrimSpace(errOut.String()), "\n")+1)
}

// errorOf returns the error of a call alone.
func errorOf[T any](_ T, err error) error { return err }
