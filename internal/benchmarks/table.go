package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"
)

// A table is a number of workloads that do the same. The first is the floor.
type table struct {
	title   string
	columns []column
	rows    []workload
}

// A column is how the children of a table are asked for.
type column struct {
	title      string
	requesters int
	atATime    int // of each requester
	children   int // of each requester, in a round
}

// A cell is what was measured of a workload in a column.
type cell struct {
	rounds []time.Duration // of a child, sorted
	allocs float64         // of a child
}

func (c *cell) median() time.Duration { return c.rounds[len(c.rounds)/2] }

// measure has all workloads take turns, round by round. The first round warms them up and does not
// count. What they write stays in base: see run.
func (t *table) measure(ctx context.Context, base string, rounds int) ([][]cell, error) {
	cells := make([][]cell, len(t.rows))
	for i := range cells {
		cells[i] = make([]cell, len(t.columns))
	}
	for at, c := range t.columns {
		dir, err := os.MkdirTemp(base, "")
		if err == nil {
			cellOf := func(row int) *cell { return &cells[row][at] }
			err = t.measureColumn(ctx, dir, c, rounds, cellOf)
		}
		if err != nil {
			return nil, err
		}
	}
	return cells, nil
}

func (t *table) measureColumn(
	ctx context.Context, base string, c column, rounds int, cellOf func(row int) *cell,
) (err error) {
	jobs := make([]job, len(t.rows))
	defer func() {
		for _, j := range jobs {
			if j != nil {
				err = errors.Join(err, j.close(ctx))
			}
		}
	}()
	for i, w := range t.rows {
		dir := filepath.Join(base, strconv.Itoa(i))
		if err = os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		if jobs[i], err = w.open(ctx, dir, c.requesters); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
	}
	for round := range rounds + 1 {
		for i, j := range jobs {
			took, allocs, err := timed(func() error { return j.run(ctx, c.children, c.atATime) })
			if err != nil {
				return fmt.Errorf("%s: %w", t.rows[i].name, err)
			}
			if round == 0 {
				continue
			}
			all := float64(c.children * c.requesters)
			at := cellOf(i)
			at.rounds = append(at.rounds, time.Duration(float64(took)/all))
			at.allocs += float64(allocs) / all / float64(rounds)
		}
	}
	for i := range jobs {
		slices.Sort(cellOf(i).rounds)
	}
	return nil
}

// timed returns how long f took, and how many objects were allocated meanwhile.
func timed(f func() error) (took time.Duration, allocs uint64, err error) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	began := time.Now()
	err = f()
	took = time.Since(began)
	runtime.ReadMemStats(&after)
	return took, after.Mallocs - before.Mallocs, err
}

// print writes the table as Markdown, which reads as text as well.
func (t *table) print(out io.Writer, cells [][]cell) error {
	w := tabwriter.NewWriter(out, 0, 0, 1, ' ', 0)
	line := func(first string, of func(column int) string, last string) {
		_, _ = fmt.Fprintf(w, "| %s\t", first)
		for i := range t.columns {
			_, _ = fmt.Fprintf(w, "| %s\t", of(i))
		}
		_, _ = fmt.Fprintf(w, "| %s\t|\n", last)
	}
	line(t.title, func(i int) string { return t.columns[i].title }, "what holds then")
	line("---", func(int) string { return "---" }, "---")
	for row, name := range t.rows {
		line(name.name, func(i int) string {
			c, floor := &cells[row][i], &cells[0][i]
			return fmt.Sprintf("%s, %.1fx, %.0f allocs", short(c.median()),
				float64(c.median())/float64(floor.median()), c.allocs)
		}, name.promise)
	}
	return w.Flush()
}

// short returns a time with as many digits as mean something.
func short(d time.Duration) string {
	us := float64(d) / float64(time.Microsecond)
	switch {
	case us < 10:
		return fmt.Sprintf("%.1f us", us)
	case us < 1000:
		return fmt.Sprintf("%.0f us", us)
	}
	return fmt.Sprintf("%.2f ms", us/1000)
}
