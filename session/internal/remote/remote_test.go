package remote_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/internal/remote"
)

// The first option that cannot be used is named with its value, and a lease has its default.
func TestCheckProcess(t *testing.T) {
	const most = time.Hour
	for _, c := range []struct {
		process        string
		lease, timeout time.Duration
		want           time.Duration
		field          string
	}{
		{"", 0, time.Second, 0, ""},
		{"a", 0, time.Second, session.DefaultLease, ""},
		{"a", time.Second, time.Second, time.Second, ""},
		{"a", most, time.Second, most, ""},
		{strings.Repeat("é", 100), 0, time.Second, session.DefaultLease, ""},
		{"a", 0, time.Second - 1, 0, "Timeout"},
		{"", time.Second, time.Second, 0, "Lease"},
		{"a", time.Second - 1, time.Second, 0, "Lease"},
		{"a", most + 1, time.Second, 0, "Lease"},
		{"a", -1, time.Second, 0, "Lease"},
		{strings.Repeat("é", 100) + "e", 0, time.Second, 0, "Process"},
		{" \t", 0, time.Second, 0, "Process"},
		{"a\n", 0, time.Second, 0, "Process"},
		{"\xff", 0, time.Second, 0, "Process"},
	} {
		lease, fault := remote.CheckProcess(c.process, c.lease, most, c.timeout)
		require.Equal(t, c.want, lease, "%+v", c)
		if c.field == "" {
			require.Nil(t, fault, "%+v", c)
			continue
		}
		require.NotNil(t, fault, "%+v", c)
		require.Equal(t, c.field, fault.Field, "%+v", c)
		require.NotEmpty(t, fault.Reason)
	}
}

// A payload is itself a text that it was made of, or an error.
type payload string

var errPayload = errors.New("bad payload")

func (p payload) AppendJSON(b []byte) ([]byte, error) {
	if p == "bad" {
		return b, errPayload
	}
	return append(b, p...), nil
}

func batchOf(payloads ...payload) session.Batch {
	b := session.Batch{ID: "id"}
	for _, p := range payloads {
		b.Entries = append(b.Entries, session.Entry{Payload: p})
	}
	return b
}

// Entries stand one a line, also those whose JSON has line breaks, behind what there was.
func TestAppendEntries(t *testing.T) {
	got, over, err := remote.AppendEntries([]byte("head:"), batchOf("1", "{\n \"a\":\n2}", "3"), 100)
	require.NoError(t, err)
	require.Zero(t, over)
	require.Equal(t, "head:1\n{\"a\":2}\n3", string(got))
	for _, bad := range []payload{"", "bad", "{\n"} {
		_, _, err = remote.AppendEntries(nil, batchOf("1", bad), 100)
		require.ErrorIs(t, err, session.ErrInvalidBatch, "%q", bad)
		require.ErrorContains(t, err, `"id": entry 1 of 2`)
	}
}

// What fills the limit is taken, and the entry with a byte more is named: none is encoded after it.
func TestAppendEntriesUpToALimit(t *testing.T) {
	for limit, want := range map[int]int{3: 0, 2: 2, 1: 2, 0: 1} {
		_, over, err := remote.AppendEntries(nil, batchOf("1", "2"), limit)
		require.NoError(t, err)
		require.Equal(t, want, over, "limit %d", limit)
	}
	got, over, err := remote.AppendEntries(nil, batchOf("12", "bad"), 1)
	require.NoError(t, err)
	require.Equal(t, 1, over)
	require.Len(t, got, 2)
}
