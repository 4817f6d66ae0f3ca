package dirstore_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/internal/disk"
	"github.com/offshoot-sdk/offshoot/internal/disk/disktest"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

const benchFactLen = 300 // bytes of JSON, about as many as a fact of a tree has

// A benchPayload is encoded JSON that is not checked again.
type benchPayload []byte

func (f benchPayload) AppendJSON(b []byte) ([]byte, error) { return append(b, f...), nil }

var benchFact = benchPayload(`"` + strings.Repeat("x", benchFactLen-2) + `"`)

func benchBatch() session.Batch {
	return session.Batch{ID: "some writer, some number", Due: testTime, Entries: []session.Entry{{Payload: benchFact}}}
}

// shareWrites shares n writes between writers and returns how long they took.
func shareWrites(b *testing.B, n, writers int, write func(writer int) error) time.Duration {
	var left atomic.Int64
	left.Store(int64(n))
	var wg sync.WaitGroup
	start := time.Now()
	for w := range writers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := write(w); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return time.Since(start)
}

// BenchmarkAppend appends one fact at a time, by writers that have a tree each. Beside that it
// measures the limits of the disk: one writer that syncs each record, and a bare group commit. The
// three take turns, so that other load on the disk affects them alike.
func BenchmarkAppend(b *testing.B) {
	for _, writers := range []int{1, 8, 64, 256} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			s, err := dirstore.Open(b.TempDir())
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close() //nolint:errcheck // what counts was synced
			last, roots := make([]session.Seq, writers), make([]session.Key, writers)
			for w := range roots {
				roots[w] = treeKey(w)
			}
			record := make([]byte, benchFactLen+100) // the bytes of a frame beside the fact
			g, raw := disktest.NewGroupCommit(benchFile(b)), disktest.NewGroupCommit(benchFile(b))
			var appends, groups, raws time.Duration
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				const each = 20
				n += each * writers
				appends += shareWrites(b, each*writers, writers, func(w int) (err error) {
					last[w], err = s.Journal.Append(context.Background(), roots[w], last[w],
						benchBatch())
					return err
				})
				b.StopTimer()
				groups += shareWrites(b, each*writers, writers,
					func(int) error { return g.Write(record) })
				raws += shareWrites(b, each, 1, func(int) error { return raw.Write(record) })
				b.StartTimer()
			}
			b.ReportMetric(float64(n)/appends.Seconds(), "appends/s")
			b.ReportMetric(100*groups.Seconds()/appends.Seconds(), "%group-commit")
			b.ReportMetric(float64(n/writers)/raws.Seconds(), "raw-syncs/s")
		})
	}
}

func benchFile(b *testing.B) disk.File {
	b.Helper()
	f, err := disk.OS().OpenFile(filepath.Join(b.TempDir(), "raw"), os.O_RDWR|os.O_CREATE)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = f.Close() })
	return f
}

// BenchmarkHotTree appends batches of several facts to one tree, with one sync each. It reports the
// bytes of the log for each fact beyond its JSON.
func BenchmarkHotTree(b *testing.B) {
	for _, facts := range []int{1, 10, 100, 1000} {
		b.Run(fmt.Sprintf("facts=%d", facts), func(b *testing.B) {
			dir := b.TempDir()
			s, err := dirstore.Open(dir)
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close() //nolint:errcheck // what counts was synced
			b.ReportAllocs()
			start := time.Now()
			var last session.Seq
			for b.Loop() {
				batch := benchBatch()
				for len(batch.Entries) < facts {
					batch.Entries = append(batch.Entries, batch.Entries[0])
				}
				last, err = s.Journal.Append(context.Background(), treeKey(0), last, batch)
				if err != nil {
					b.Fatal(err)
				}
			}
			size, _ := dirstore.LogSize(s)
			b.ReportMetric(float64(b.N*facts)/time.Since(start).Seconds(), "facts/s")
			b.ReportMetric(float64(size)/float64(b.N*facts)-benchFactLen, "extra-B/fact")
		})
	}
}

// BenchmarkOpen opens an empty directory, one with many idle trees, and one with many live trees.
func BenchmarkOpen(b *testing.B) {
	for _, c := range []struct{ idle, live int }{{0, 0}, {10_000, 0}, {0, 1_000}, {10_000, 1_000}} {
		b.Run(fmt.Sprintf("idle=%d/live=%d", c.idle, c.live), func(b *testing.B) {
			dir := b.TempDir()
			s, err := dirstore.Open(dir)
			if err != nil {
				b.Fatal(err)
			}
			var wg sync.WaitGroup
			for w := range 64 {
				wg.Go(func() {
					for i := w; i < c.idle+c.live; i += 64 {
						batch := benchBatch()
						if i < c.idle {
							batch.Due = time.Time{}
						}
						_, err := s.Journal.Append(context.Background(), treeKey(i), 0, batch)
						if err != nil {
							b.Error(err)
						}
					}
				})
			}
			wg.Wait()
			if err := dirstore.Compact(s); err != nil {
				b.Fatal(err)
			}
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				s, err := dirstore.Open(dir)
				if err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}

// BenchmarkTranscript appends the two lines of a turn to a transcript, with one sync.
func BenchmarkTranscript(b *testing.B) {
	s, err := dirstore.Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // what counts was synced
	ref := session.Ref{Key: treeKey(0), SessionID: "x"}
	b.ReportAllocs()
	var end session.Pos
	for b.Loop() {
		turn := userMessages("question", "answer")
		if end, err = s.Transcripts.Append(context.Background(), ref, end, turn...); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkNewTranscripts has writers begin a transcript each with the two lines of a turn, and
// again and again with another. Beside that it measures bare group commit. The two take turns.
func BenchmarkNewTranscripts(b *testing.B) {
	for _, writers := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			s, err := dirstore.Open(b.TempDir())
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close() //nolint:errcheck // what counts was synced
			turn := userMessages("question", "answer")
			record := make([]byte, 200)
			g := disktest.NewGroupCommit(benchFile(b))
			var appends, groups time.Duration
			var next atomic.Int64
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				n += writers
				appends += shareWrites(b, writers, writers, func(int) error {
					ref := testRef(fmt.Sprint("t", next.Add(1)))
					_, err := s.Transcripts.Append(context.Background(), ref, 0, turn...)
					return err
				})
				b.StopTimer()
				groups += shareWrites(b, writers, writers,
					func(int) error { return g.Write(record) })
				b.StartTimer()
			}
			b.ReportMetric(float64(n)/appends.Seconds(), "transcripts/s")
			b.ReportMetric(100*groups.Seconds()/appends.Seconds(), "%group-commit")
		})
	}
}

// BenchmarkPut keeps files of 1 MB, each with other bytes. Beside that it measures the floor: a new
// file of 1 MB that is written and synced. The two take turns.
func BenchmarkPut(b *testing.B) {
	dir := b.TempDir()
	s, err := dirstore.Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // the figures are there
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	var put, floor time.Duration
	for n := 0; b.Loop(); n++ {
		binary.LittleEndian.PutUint64(data, uint64(n))
		begin := time.Now()
		_, err := s.Files.Put(b.Context(), testRef("x"), bytes.NewReader(data), session.File{})
		if err != nil {
			b.Fatal(err)
		}
		put += time.Since(begin)
		b.StopTimer()
		begin = time.Now()
		if err := writeAndSync(filepath.Join(dir, fmt.Sprint(n)), data); err != nil {
			b.Fatal(err)
		}
		floor += time.Since(begin)
		b.StartTimer()
	}
	b.ReportMetric(float64(floor.Microseconds())/float64(b.N), "floor-us/op")
	b.ReportMetric(float64(put)/float64(floor), "x-floor")
}

// writeAndSync writes a new file and syncs it.
func writeAndSync(name string, data []byte) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}
