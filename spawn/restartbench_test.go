package spawn_test

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// R17: the first Post after a restart reads the tree, which holds runs that have ended and are not
// archived yet. BenchmarkRestart reports how long that Post takes beside reading and checking every
// entry of the same log, and what a kept run takes of memory after it.
func BenchmarkRestart(b *testing.B) {
	for _, ended := range []int{1_000, 200_000} {
		b.Run(fmt.Sprintf("ended=%d", ended), func(b *testing.B) {
			dir := b.TempDir()
			root := endRuns(b, dir, ended, 1, time.Hour)[0]
			var post, read time.Duration
			var kept uint64
			b.ResetTimer()
			for range b.N {
				read += timeRead(b, dir, root)
				d, bytes := timePost(b, dir, root)
				post, kept = post+d, bytes
			}
			b.ReportMetric(float64(post)/float64(read), "post/read")
			b.ReportMetric(read.Seconds()/float64(b.N), "s/read")
			b.ReportMetric(post.Seconds()/float64(b.N), "s/post")
			b.ReportMetric(float64(kept)/float64(ended), "B/run")
		})
	}
}

// timeRead returns how long it takes to open a directory and to read and check a log.
func timeRead(b *testing.B, dir string, root session.Key) time.Duration {
	start := time.Now()
	store, err := dirstore.Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	n, bytes := 0, 0
	for e, err := range store.Journal.Read(b.Context(), root, 0) {
		if err != nil {
			b.Fatal(err)
		}
		raw, _ := e.Payload.(session.Raw)
		n, bytes = n+1, bytes+len(raw)
	}
	if os.Getenv("V") != "" {
		b.Logf("%d entries, %d bytes", n, bytes)
	}
	return time.Since(start)
}

// timePost returns how long it takes to open a directory and to post into a tree, and how many
// bytes the tree then takes.
func timePost(b *testing.B, dir string, root session.Key) (time.Duration, uint64) {
	before := heapBytes()
	start := time.Now()
	store, err := dirstore.Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	s, err := spawn.Open(b.Context(), spawn.Config{
		Store: store, Runner: instantRunner,
	})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := s.Post(b.Context(), root, root, spawn.Incoming{ID: "1", Text: "go"}); err != nil {
		b.Fatal(err)
	}
	d := time.Since(start)
	after := heapBytes()
	runtime.KeepAlive(s)
	if err := s.Shutdown(b.Context()); err != nil {
		b.Fatal(err)
	}
	return d, after - before
}
