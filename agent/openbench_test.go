package agent_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/session"
	"github.com/offshoot-sdk/offshoot/session/dirstore"
)

// BenchmarkOpenOverIdleChats opens a directory with many idle chats, and has one of them answered,
// beside a directory that has that chat alone. The two take turns. The others are at rest, as those
// of a bot that has run for days: their trees have left the log. OFFSHOOT_CHATS says how many there
// are, 10,000 unless set.
func BenchmarkOpenOverIdleChats(b *testing.B) {
	chats := 10_000
	if s := os.Getenv("OFFSHOOT_CHATS"); s != "" {
		var err error
		if chats, err = strconv.Atoi(s); err != nil {
			b.Fatal(err)
		}
	}
	few, many := b.TempDir(), b.TempDir()
	answerChat(b, few)
	answerChat(b, many)
	copyChat(b, many, chats)
	for _, dir := range []string{few, many} {
		rest(b, dir)
	}
	checkCopy(b, many, chats)
	var open, reply [2]time.Duration
	for b.Loop() {
		for i, dir := range []string{few, many} {
			o, r := openAndAnswer(b, dir)
			open[i], reply[i] = open[i]+o, reply[i]+r
		}
	}
	b.ReportMetric(open[1].Seconds()*1e3/float64(b.N), "ms/open")
	b.ReportMetric(float64(open[1])/float64(open[0]), "open-ratio")
	b.ReportMetric(reply[1].Seconds()*1e3/float64(b.N), "ms/reply")
	b.ReportMetric(float64(reply[1])/float64(reply[0]), "reply-ratio")
}

func benchChat(n int) session.Key {
	return session.Must(session.NamedKey("main", fmt.Sprintf("chat-%06d", n)))
}

// openChats opens a directory, and returns what closes it.
func openChats(b *testing.B, dir string) (rt *agent.Runtime, end func()) {
	store, err := dirstore.Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	cfg := configWith(func(context.Context, *agent.Turn) (agent.Result, error) {
		return textResult("answer")
	})
	cfg.Store = store
	if rt, err = agent.Open(b.Context(), cfg); err != nil {
		b.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- rt.Run(b.Context()) }()
	return rt, func() {
		if err := rt.Shutdown(b.Context()); err != nil {
			b.Fatal(err)
		}
		if err := <-done; err != nil {
			b.Fatal(err)
		}
		if err := store.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// answerChat has a turn in the first chat of a directory.
func answerChat(b *testing.B, dir string) {
	rt, end := openChats(b, dir)
	defer end()
	if _, err := rt.Session(benchChat(1)).PostAndWait(b.Context(),
		agent.Incoming{Text: "hello"}); err != nil {
		b.Fatal(err)
	}
}

// copyChat gives a directory so many chats, which are like the first one but for their keys and
// session ids. These have one length, so that the positions in the log are right. A turn in each
// would take a quarter of an hour for 100,000.
func copyChat(b *testing.B, dir string, chats int) {
	store, err := dirstore.Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	must := func(err error) {
		if err != nil {
			b.Error(err)
		}
	}
	defer func() { must(store.Close()) }()
	first, ctx := benchChat(1), b.Context()
	var id string
	for ref, err := range store.Transcripts.(session.TranscriptsLister).Refs(ctx) {
		must(err)
		id = ref.SessionID
	}
	var log []string
	for e, err := range store.Journal.Read(ctx, first, 0) {
		must(err)
		text, err := e.Payload.AppendJSON(nil)
		must(err)
		log = append(log, string(text))
	}
	var lines []session.Message
	ref := session.Ref{Key: first, SessionID: id}
	for l, err := range store.Transcripts.Read(ctx, ref, session.LineQuery{}) {
		must(err)
		lines = append(lines, l.Message)
	}
	var next atomic.Int64
	var writers sync.WaitGroup
	for range 64 {
		writers.Go(func() {
			for n := next.Add(1) + 1; n <= int64(chats) && !b.Failed(); n = next.Add(1) + 1 {
				to := session.Ref{Key: benchChat(int(n)), SessionID: session.NewID()}
				renamed := strings.NewReplacer(first.String(), to.Key.String(), id, to.SessionID)
				batch := session.Batch{ID: session.BatchID(session.NewID())}
				for _, text := range log {
					payload := session.Raw(renamed.Replace(text))
					batch.Entries = append(batch.Entries, session.Entry{Payload: payload})
				}
				_, err := store.Transcripts.(session.Carrier).AppendWith(
					ctx, to.Key, to, 0, lines...)
				must(err)
				_, err = store.Journal.Append(ctx, to.Key, 0, batch)
				must(err)
			}
		})
	}
	writers.Wait()
}

// checkCopy has the last chat answered, which must go on where the first one was.
func checkCopy(b *testing.B, dir string, chats int) {
	rt, end := openChats(b, dir)
	defer end()
	last := rt.Session(benchChat(chats))
	if _, err := last.PostAndWait(b.Context(), agent.Incoming{Text: "hello"}); err != nil {
		b.Fatal(err)
	}
	page, err := last.History(b.Context(), agent.HistoryQuery{})
	if err != nil {
		b.Fatal(err)
	}
	if len(page.Lines) != 4 {
		b.Fatalf("a copied chat has %d lines after its second turn, want 4", len(page.Lines))
	}
}

// rest has another chat answered now and then until the other ones are at rest: their trees have
// left the log. A compaction that is under way has what it needs, and each answer would be another
// tail of the log.
func rest(b *testing.B, dir string) {
	rt, end := openChats(b, dir)
	defer end()
	for tick := time.Tick(50 * time.Millisecond); ; <-tick {
		if _, err := rt.Session(benchChat(0)).PostAndWait(b.Context(),
			agent.Incoming{Text: "hello"}); err != nil {
			b.Fatal(err)
		}
		logs, err := filepath.Glob(filepath.Join(dir, "journal", "*.wal"))
		var size int64
		for _, name := range logs {
			info, statErr := os.Stat(name)
			if err = errors.Join(err, statErr); err == nil {
				size += info.Size()
			}
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // a log is replaced
			b.Fatal(err)
		}
		if size < 1<<20 {
			return
		}
	}
}

// openAndAnswer returns how long it takes to open a directory, and from there to the first answer.
func openAndAnswer(b *testing.B, dir string) (open, reply time.Duration) {
	began := time.Now()
	rt, end := openChats(b, dir)
	open = time.Since(began)
	defer end()
	began = time.Now()
	if _, err := rt.Session(benchChat(1)).PostAndWait(b.Context(),
		agent.Incoming{Text: "hello again"}); err != nil {
		b.Fatal(err)
	}
	return open, time.Since(began)
}
