package pgstore_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session/pgstore"
)

// BenchmarkAppend appends entries of 1 KiB to so many trees at once. The floor is the same work by
// hand: one insert of a row of that size in a transaction of its own, over as many connections.
func BenchmarkAppend(b *testing.B) {
	s := ownServer(b)
	payload := session.Raw(fmt.Sprintf("%q", strings.Repeat("x", 1022)))
	for _, writers := range []int{1, 16} {
		pool, err := pgxpool.New(b.Context(), s.DSN()+fmt.Sprint("&pool_max_conns=", writers))
		require.NoError(b, err)
		b.Run(fmt.Sprintf("floor/writers=%d", writers), func(b *testing.B) {
			table := freshSchema()
			_, err := pool.Exec(b.Context(), `create table `+table+` (data bytea)`)
			require.NoError(b, err)
			inParallel(b, writers, func(int) (func() error, error) {
				return func() error {
					_, err := pool.Exec(b.Context(), `insert into `+table+` values ($1)`, []byte(payload))
					return err
				}, nil
			})
		})
		b.Run(fmt.Sprintf("journal/writers=%d", writers), func(b *testing.B) {
			o := pgstore.Options{Schema: freshSchema()}
			store, err := pgstore.OpenPool(b.Context(), pool, o)
			require.NoError(b, err)
			defer func() { _ = store.Close() }()
			batch := session.Batch{ID: "b", Entries: []session.Entry{{Payload: payload}}}
			inParallel(b, writers, func(i int) (func() error, error) {
				root := session.Must(session.NamedKey("main", fmt.Sprint("tree", i)))
				var last session.Seq
				return func() (err error) {
					last, err = store.Journal.Append(b.Context(), root, last, batch)
					return err
				}, nil
			})
		})
		pool.Close()
	}
}

// inParallel calls what begin returns for each writer, b.N times in all.
func inParallel(b *testing.B, writers int, begin func(i int) (func() error, error)) {
	var calls []func() error
	for i := range writers {
		call, err := begin(i)
		require.NoError(b, err)
		calls = append(calls, call)
	}
	failed := make([]error, writers)
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for i, call := range calls {
		wg.Go(func() {
			for n := i; n < b.N && failed[i] == nil; n += writers {
				failed[i] = call()
			}
		})
	}
	wg.Wait()
	for _, err := range failed {
		require.NoError(b, err)
	}
}

// BenchmarkLane has three processes share a lane of 8 slots, each of which is used for 100 ms. The
// ideal are 80 turns a second.
func BenchmarkLane(b *testing.B) {
	const processes, slots, turn = 3, 8, 100 * time.Millisecond
	s, schema := ownServer(b), freshSchema()
	ctx, cancel := context.WithCancel(b.Context())
	var ended sync.WaitGroup
	defer ended.Wait()
	defer cancel()
	lanes, granted := make([]session.Lane, processes), make([]chan string, processes)
	for i := range processes {
		store := s.open(b, pgstore.Options{Schema: schema, Process: fmt.Sprint("p", i)})
		granted[i] = make(chan string, b.N)
		lanes[i] = store.Owners.Lane("l", slots, session.LaneUser{
			Granted: func(id string) { granted[i] <- id },
		})
		ended.Go(func() { _ = store.Owners.Serve(ctx, session.Member{}) })
	}
	var turns sync.WaitGroup
	var mu sync.Mutex
	var under, most int
	use := func(by int) {
		mu.Lock()
		defer mu.Unlock()
		under += by
		most = max(most, under)
	}
	b.ResetTimer()
	for n := range b.N {
		require.NoError(b, lanes[n%processes].Ask(
			session.Ticket{ID: fmt.Sprint(n), Requester: fmt.Sprint(n % 7)}))
	}
	for n := range b.N {
		turns.Go(func() {
			i := n % processes
			id := <-granted[i]
			use(1)
			time.Sleep(turn)
			use(-1)
			lanes[i].Free(id)
		})
	}
	turns.Wait()
	rate := float64(b.N) / b.Elapsed().Seconds()
	b.ReportMetric(rate, "turns/s")
	b.ReportMetric(100*rate/(slots/turn.Seconds()), "%ideal")
	require.LessOrEqual(b, most, slots)
}
