package pgstore_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session"

	"github.com/offshoot-sdk/offshoot/session/pgstore"
)

// BenchmarkAppend appends entries of 1 KiB to so many trees at once. The floor is the same work by
// hand: one insert of a row of that size in a transaction of its own, over as many connections.
func BenchmarkAppend(b *testing.B) {
	s := ownServer(b)
	payload := session.Raw(fmt.Sprintf("%q", make([]byte, 200)))
	for _, writers := range []int{1, 16} {
		pool, err := pgxpool.New(b.Context(), s.dsn()+fmt.Sprint("&pool_max_conns=", writers))
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
