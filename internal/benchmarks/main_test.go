package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every workload runs in every column, and each row has a figure in each.
func TestTables(t *testing.T) {
	var out strings.Builder
	require.NoError(t, run(t.Context(), []string{"-rounds", "1", "-scale", "1"}, &out))
	printed := strings.Split(out.String(), "\n\n")[1:] // the first line is the machine's
	want := tables(1)
	require.Len(t, printed, len(want))
	for i, table := range want {
		lines := strings.Split(strings.TrimSpace(printed[i]), "\n")
		require.Len(t, lines, 2+len(table.rows))
		require.Contains(t, lines[0], table.title)
		for row, w := range table.rows {
			line := lines[2+row]
			require.Contains(t, line, "| "+w.name)
			require.Equal(t, len(table.columns), strings.Count(line, " allocs"), line)
			if row == 0 {
				require.Equal(t, len(table.columns), strings.Count(line, ", 1.0x,"), line)
			}
		}
	}
}

// A table is measured alone if -table names it.
func TestOneTable(t *testing.T) {
	var out strings.Builder
	args := []string{"-rounds", "1", "-scale", "1", "-table", "disk"}
	require.NoError(t, run(t.Context(), args, &out))
	require.Contains(t, out.String(), "| on disk")
	require.NotContains(t, out.String(), "| in memory")
	require.Error(t, run(t.Context(), append(args[:4:4], "-table", "tape"), &out))
}

// What one column has written is there while the next is measured.
func TestNothingIsRemovedBetweenColumns(t *testing.T) {
	base, seen := t.TempDir(), 0
	look := func(ctx context.Context, dir string, n int) (job, error) {
		entries, err := os.ReadDir(filepath.Dir(filepath.Dir(dir)))
		if err != nil {
			return nil, err
		}
		seen = len(entries)
		return openGoroutines(ctx, dir, n)
	}
	columns := []column{{"one", 1, 1, 1}, {"two", 1, 1, 1}}
	looking := table{columns: columns, rows: []workload{{"look", "", look}}}
	_, err := looking.measure(t.Context(), base, 1)
	require.NoError(t, err)
	require.Equal(t, 2, seen)
}

func TestBadArguments(t *testing.T) {
	for _, args := range [][]string{{"-rounds", "0"}, {"-scale", "0"}, {"x"}, {"-y"}} {
		require.Error(t, run(t.Context(), args, new(strings.Builder)), args)
	}
}

// failing is a workload whose second round fails.
type failing struct{ runs, closed *int }

var errBroken = errors.New("broken")

func (f failing) run(context.Context, int, int) error {
	if *f.runs++; *f.runs > 1 {
		return errBroken
	}
	return nil
}

func (f failing) close(context.Context) error { *f.closed++; return nil }

// A workload that fails ends the table, which names it, and closes all of them.
func TestWorkloadThatFails(t *testing.T) {
	runs, closed := 0, 0
	open := func(context.Context, string, int) (job, error) { return failing{&runs, &closed}, nil }
	broken := table{
		columns: []column{{"one", 1, 1, 1}, {"two", 1, 1, 1}},
		rows:    []workload{{"good", "", openGoroutines}, {"bad", "", open}, {"worse", "", open}},
	}
	_, err := broken.measure(t.Context(), t.TempDir(), 3)
	require.ErrorIs(t, err, errBroken)
	require.ErrorContains(t, err, "worse")
	require.Equal(t, 2, closed)
}

// What eino tells of is counted: a child that did not come is an error.
func TestEinoCounts(t *testing.T) {
	require.NoError(t, einoJob{}.run(t.Context(), 45, 20))
}
