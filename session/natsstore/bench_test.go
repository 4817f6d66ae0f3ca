package natsstore_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session/natsstore"
)

// BenchmarkAppend appends entries of 1 KiB to so many trees at once, over one connection. The floor
// is the same work by hand: one publication of that size to a subject of a stream.
func BenchmarkAppend(b *testing.B) {
	s := startServer(b)
	payload := session.Raw(fmt.Sprintf("%q", strings.Repeat("x", 1022)))
	js := jetStream(b, s.url())
	_, err := js.CreateStream(b.Context(), jetstream.StreamConfig{
		Name: "floor", Subjects: []string{"floor.>"},
	})
	require.NoError(b, err)
	for _, writers := range []int{1, 16} {
		b.Run(fmt.Sprintf("floor/writers=%d", writers), func(b *testing.B) {
			inParallel(b, writers, func(i int) func() error {
				return func() error {
					_, err := js.Publish(b.Context(), fmt.Sprint("floor.", i), payload)
					return err
				}
			})
		})
		for _, due := range []string{"same", "moving"} {
			b.Run(fmt.Sprintf("journal/writers=%d/due=%s", writers, due), func(b *testing.B) {
				o := natsstore.Options{Name: fmt.Sprint("b", names.Add(1))}
				store := s.open(b, o)
				inParallel(b, writers, func(i int) func() error {
					root := session.Must(session.NamedKey("main", fmt.Sprint("tree", i)))
					var last session.Seq
					n := int64(0)
					return func() (err error) {
						batch := session.Batch{ID: "b", Entries: []session.Entry{{Payload: payload}}}
						if n++; due == "moving" {
							batch.Due = time.Unix(n, 0)
						}
						last, err = store.Journal.Append(b.Context(), root, last, batch)
						return err
					}
				})
			})
		}
	}
}

// inParallel calls what begin returns for each writer, b.N times in all.
func inParallel(b *testing.B, writers int, begin func(i int) func() error) {
	failed := make([]error, writers)
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for i := range writers {
		call := begin(i)
		wg.Go(func() {
			for n := i; n < b.N && failed[i] == nil; n += writers {
				failed[i] = call()
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "appends/s")
	for _, err := range failed {
		require.NoError(b, err)
	}
}

// BenchmarkRead reads a log of 3,000 batches. The floor is a question for each of them by hand,
// which is how a log of a few is read.
func BenchmarkRead(b *testing.B) {
	s := startServer(b)
	const batches = 3000
	o := natsstore.Options{Name: fmt.Sprint("b", names.Add(1))}
	store := s.open(b, o)
	var last session.Seq
	var err error
	for i := range batches {
		last, err = store.Journal.Append(b.Context(), root, last, entries(fmt.Sprint(i), 2))
		require.NoError(b, err)
	}
	js := connect(b, s.url())
	stream, err := js.Stream(b.Context(), o.Name+"_log")
	require.NoError(b, err)
	b.Run("floor", func(b *testing.B) {
		for range b.N {
			for seq := range uint64(batches) {
				_, err := stream.GetMsg(b.Context(), seq+1)
				require.NoError(b, err)
			}
		}
		b.ReportMetric(float64(batches*b.N)/b.Elapsed().Seconds(), "batches/s")
	})
	b.Run("journal", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			n := 0
			for _, err := range store.Journal.Read(b.Context(), root, 0) {
				require.NoError(b, err)
				n++
			}
			require.Equal(b, 2*batches, n)
		}
		b.ReportMetric(float64(batches*b.N)/b.Elapsed().Seconds(), "batches/s")
	})
}
