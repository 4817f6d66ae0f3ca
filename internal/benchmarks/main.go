package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/offshoot-sdk/offshoot/policy"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "benchmarks:", err)
		os.Exit(1)
	}
}

// run prints the tables. It removes what the workloads have written at the end and not before: for
// a minute after many files were removed, ext4 takes up to twenty times as long to make a new one.
func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("benchmarks", flag.ContinueOnError)
	flags.SetOutput(out)
	rounds := flags.Int("rounds", 9, "how many `rounds` count, of which the median is shown")
	scale := flags.Int("scale", 100, "how much is done in a round, in `percent`")
	only := flags.String("table", "", "measure only the tables with this in their `title`")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	case *rounds < 1 || *scale < 1 || flags.NArg() > 0:
		return errors.New("want -rounds and -scale of at least 1, and no other argument")
	}
	chosen := slices.DeleteFunc(tables(*scale), func(t table) bool {
		return !strings.Contains(t.title, *only)
	})
	if len(chosen) == 0 {
		return fmt.Errorf("-table %q: it is in the title of none", *only)
	}
	_, _ = fmt.Fprintf(out, "%s, %s/%s, %d processors, %s: from the spawn to the result, for each child\n",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0),
		time.Now().Format(time.DateOnly))
	base, err := os.MkdirTemp("", "benchmarks")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(base)) }()
	for _, t := range chosen {
		cells, err := t.measure(ctx, base, *rounds)
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintln(out)
		if err = t.print(out, cells); err != nil {
			return err
		}
	}
	return nil
}

// tables returns what is measured, with so many percent of the children.
func tables(scale int) []table {
	children := func(n int) int { return max(1, n*scale/100) }
	return []table{
		{
			title: "in memory",
			columns: []column{
				{"one at a time", 1, 1, children(2_000)},
				{"20 at a time", 1, policy.MaxChildren, children(4_000)},
			},
			rows: []workload{
				{"goroutine, channel, id, map", "nothing", openGoroutines},
				{"spawn", "told once; limits, order, stop", openSpawn(false)},
				{"agent", "that, a prompt and a transcript", openAgent(false)},
				{"eino v0.7.36, agent as a tool", "the parent waits for it", openEino},
			},
		},
		{
			title: "on disk",
			columns: []column{
				{"1 requester", 1, 1, children(200)},
				{"8 requesters", 8, 1, children(100)},
				{"64 requesters", 64, 1, children(20)},
				{"256 requesters", 256, 1, children(8)},
			},
			rows: []workload{
				{"group commit, three records", "the records are durable", openGroupCommit},
				{"spawn", "told once inside, at least once outside, over kill -9", openSpawn(true)},
				{"agent", "that, a prompt and a transcript", openAgent(true)},
				{"SQLite (modernc), three transactions", "the rows are durable", openSQLite},
			},
		},
	}
}
