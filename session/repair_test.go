package session_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"
)

// Each mark of a repair has an ID of its own, and the last one counts.
func TestMarkRepaired(t *testing.T) {
	j := session.NewMemory().Journal
	last := func() session.RepairMark {
		m, err := session.LastRepair(t.Context(), j)
		require.NoError(t, err)
		return m
	}
	require.Zero(t, last())
	now := time.Date(2026, 3, 4, 5, 6, 7, 8, time.FixedZone("", 3600))
	seen := make(map[string]bool)
	for range 3 {
		m, err := session.MarkRepaired(t.Context(), j, now)
		require.NoError(t, err)
		require.False(t, seen[m.ID])
		seen[m.ID] = true
		require.Regexp(t, `^[0-9a-f]{12}$`, m.ID)
		require.True(t, now.Equal(m.Time))
		require.Equal(t, m, last())
		text, err := m.AppendJSON([]byte("x"))
		require.NoError(t, err)
		require.Equal(t, `x{"repair":"`+m.ID+`","time":"2026-03-04T04:06:07.000000008Z"}`, string(text))
	}
}

// failingJournal yields an error in place of its marks.
type failingJournal struct {
	session.Journal
	err error
}

func (f failingJournal) Read(
	context.Context, session.Key, session.Seq,
) iter.Seq2[session.Entry, error] {
	return func(yield func(session.Entry, error) bool) { yield(session.Entry{}, f.err) }
}

// What cannot be read is not taken for a journal without a repair.
func TestLastRepairOfWhatCannotBeRead(t *testing.T) {
	down := errors.New("down")
	_, err := session.LastRepair(t.Context(), failingJournal{err: down})
	require.ErrorIs(t, err, down)
	_, err = session.MarkRepaired(t.Context(), failingJournal{err: down}, time.Now())
	require.ErrorIs(t, err, down)
	for _, text := range []string{`{}`, `[]`, `"x"`, `{"repair":1}`, `null`} {
		j := session.NewMemory().Journal
		_, err := j.Append(t.Context(), session.RepairsRoot(), 0, session.Batch{
			Entries: []session.Entry{{Payload: session.Raw(text)}},
		})
		require.NoError(t, err)
		_, err = session.LastRepair(t.Context(), j)
		require.ErrorIs(t, err, session.ErrFormat, text)
		require.ErrorContains(t, err, "entry 1")
	}
}
