package pgstore_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/offshoot-sdk/offshoot/session/internal/enginetest"
	"github.com/offshoot-sdk/offshoot/session/internal/load"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session/pgstore"
)

// loadChild is a process of a bot under load: its argument is a load.Load, whose Target is the
// connection string, a space and the schema.
func loadChild(ctx context.Context, args []string) {
	l, err := load.Of(args[0])
	if err == nil {
		err = serveLoad(ctx, l)
	}
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
	}
}

func serveLoad(ctx context.Context, l load.Load) error {
	dsn, schema, _ := strings.Cut(l.Target, " ")
	store, err := pgstore.Open(ctx, dsn, pgstore.Options{Schema: schema, Process: l.Name})
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	return l.Serve(ctx, store, os.Stdin, os.Stdout)
}

// TestLoad has three processes share a lane, whose limit holds. OFFSHOOT_LOAD has it print the
// tables of docs/cluster.md, and is how long each row takes, such as 10s.
func TestLoad(t *testing.T) {
	var out strings.Builder
	s := ownServer(t)
	pool, err := pgxpool.New(t.Context(), s.DSN())
	require.NoError(t, err)
	defer pool.Close()
	e := load.Engine{
		Fresh: func() string { return s.DSN() + " " + freshSchema() },
		Start: func(ctx context.Context, l load.Load) *exec.Cmd {
			return enginetest.Command(ctx, "load", l.String())
		},
		Commits: func(writers int, d time.Duration) (float64, error) {
			return commits(t.Context(), s, writers, d)
		},
		Requests: func() (n int64, err error) {
			time.Sleep(2 * time.Second) // the server counts what it did a second ago
			err = pool.QueryRow(t.Context(), `select xact_commit + xact_rollback
				from pg_stat_database where datname = current_database()`).Scan(&n)
			return n, err
		},
		Dir: t.TempDir(), Out: &out,
	}
	parts, err := e.Parts(os.Getenv("OFFSHOOT_LOAD"))
	require.NoError(t, err)
	for _, part := range parts {
		t.Run(part.Name, func(t *testing.T) {
			out.Reset()
			require.NoError(t, part.Run(t.Context()))
			t.Log("\n" + out.String())
		})
	}
}

// commits returns how many rows a second the server commits, each in a transaction of its own, over
// so many connections.
func commits(
	ctx context.Context, s *server, connections int, d time.Duration,
) (float64, error) {
	pool, err := pgxpool.New(ctx, s.DSN()+fmt.Sprint("&pool_max_conns=", connections))
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	table := freshSchema()
	if _, err = pool.Exec(ctx, `create table `+table+` (data bytea)`); err != nil {
		return 0, err
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	all, row := 0, make([]byte, 1000)
	end := time.Now().Add(d)
	for range connections {
		wg.Go(func() {
			n := 0
			for ; time.Now().Before(end); n++ {
				_, err := pool.Exec(ctx, `insert into `+table+` values ($1)`, row)
				if err != nil {
					break
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all += n
		})
	}
	wg.Wait()
	return float64(all) / d.Seconds(), nil
}
