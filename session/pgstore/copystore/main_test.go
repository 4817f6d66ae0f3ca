package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
	"github.com/offshoot-sdk/offshoot/session/storecopy/copycommand"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session/pgstore/pgstoretest"
)

// filled makes a directory with a little of everything.
func filled(t *testing.T, dir string) {
	t.Helper()
	s, err := dirstore.Open(dir)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	key := session.Must(session.MainKey("main"))
	_, err = s.Journal.Append(t.Context(), key, 0, session.Batch{
		ID: "one", Entries: []session.Entry{{Payload: session.Raw(`{"n":1}`)}},
	})
	require.NoError(t, err)
	for _, id := range []string{"one", "two"} {
		ref := session.Ref{Key: key, SessionID: id}
		_, err = s.Transcripts.Append(t.Context(), ref, 0,
			session.Message{Role: session.MessageUser, Text: "hello " + id})
		require.NoError(t, err)
		_, err = s.Files.Put(t.Context(), ref, strings.NewReader("bytes of "+id), session.File{})
		require.NoError(t, err)
	}
}

// runIt runs the command, and returns its code and what it has printed.
func runIt(t *testing.T, args ...string) (code int, text string) {
	t.Helper()
	var out bytes.Buffer
	code = run(t.Context(), args, &out, &out)
	t.Logf("%q: %d\n%s", args, code, &out)
	return code, out.String()
}

// The command copies a directory into a database, from there into another directory, and says in
// words what is wrong.
func TestCopystore(t *testing.T) {
	s, err := pgstoretest.New("fsync=off")
	if errors.Is(err, pgstoretest.ErrMissing) {
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Cleanup(s.Remove)
	dir, back := filepath.Join(t.TempDir(), "state"), filepath.Join(t.TempDir(), "back")
	filled(t, dir)
	do := func(want int, from, to string, more ...string) string {
		t.Helper()
		args := append([]string{"-trust-sync", "-from", from, "-to", to}, more...)
		code, text := runIt(t, args...)
		require.Equal(t, want, code)
		return text
	}
	const all = "everything is the same: 1 logs with 1 entries, 2 transcripts with 2 lines " +
		"(0 archived), 2 files of 24 bytes\n"
	assert.Contains(t, do(copycommand.ExitOK, dir, s.DSN()), all)
	assert.Contains(t, do(copycommand.ExitOK, dir, s.DSN(), "-verify"), all)
	assert.Contains(t, do(copycommand.ExitError, dir, s.DSN()), "Name another -schema")
	assert.Contains(t, do(copycommand.ExitOK, dir, s.DSN(), "-schema", "other"), all)
	assert.Contains(t, do(copycommand.ExitOK, s.DSN(), back), all)
	assert.Contains(t, do(copycommand.ExitOK, dir, back, "-verify"), all)

	missing := filepath.Join(dir, "missing")
	assert.Contains(t, do(copycommand.ExitError, missing, s.DSN()), "does not have a store")
	assert.Contains(t, do(copycommand.ExitError, dir, missing, "-verify"), "does not have a store")
	assert.NoDirExists(t, missing)

	store, err := dirstore.Open(back)
	require.NoError(t, err)
	assert.Contains(t, do(copycommand.ExitError, back, s.DSN(), "-verify"), "End the bot that has it")
	ref := session.Ref{Key: session.Must(session.MainKey("main")), SessionID: "three"}
	m := session.Message{Role: session.MessageUser}
	_, err = store.Transcripts.Append(t.Context(), ref, 0, m)
	require.NoError(t, err)
	require.NoError(t, store.Close())
	text := do(copycommand.ExitError, back, s.DSN(), "-verify")
	assert.Contains(t, text, `transcript "three" of "agent:main:main", the line at`)
	assert.Contains(t, text, "begin with an empty target")

	path := filepath.Join(dir, "sessions", "main", "two.jsonl")
	line, err := os.ReadFile(path)
	require.NoError(t, err)
	broken := bytes.Replace(line, []byte(`"role":"user"`), []byte(`"role":"user`), 1)
	require.NoError(t, os.WriteFile(path, broken, 0o600))
	text = do(copycommand.ExitError, dir, s.DSN(), "-schema", "third")
	assert.Contains(t, text, "two.jsonl")
	assert.Contains(t, text, "when-a-store-does-not-open.md")
	require.NoError(t, os.WriteFile(path, line, 0o600))
	assert.Contains(t, do(copycommand.ExitError, s.DSN(), missing, "-schema", "third"), "Finish the copy")
	assert.Contains(t, do(copycommand.ExitOK, dir, s.DSN(), "-schema", "third"), all, "it goes on")
}
