//go:build unix

package enginetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/offshoot-sdk/offshoot/session"
)

// A writing makes changes of one process whose writes to the server fail.
type writing struct {
	t     testing.TB
	store *session.Store
	root  session.Key
	ref   session.Ref

	n       int  // of the change that is under way
	again   bool // it was tried before
	last    session.Seq
	pos     session.Pos
	batches []session.BatchID
	lines   []string
	files   []session.File
	granted chan string
}

// TestWritesThatFail makes every kind of change with every write to the server failing once, in
// every way: each change is made once, and the process goes on. hidden says that a caller sees no
// error. Else it may see one that passes, and does then what an owner does: it looks what has
// become of the change, and makes it again.
func TestWritesThatFail(t *testing.T, faults *Faults, store *session.Store, hidden bool) {
	t.Helper()
	root := session.Must(session.NamedKey("main", "writes"))
	w := &writing{
		t: t, store: store, root: root, ref: session.Ref{Key: root, SessionID: "one"},
		granted: make(chan string, 1),
	}
	ctx, cancel := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	defer serving.Wait()
	defer cancel()
	lane := store.Owners.Lane("writes", 1, session.LaneUser{
		Granted: func(id string) { w.granted <- id },
	})
	for _, kind := range []kindOfWrite{
		{name: "claim", do: w.claim},
		{name: "entry", do: w.append(10)},
		{name: "large entry", do: w.append(200_000)},
		{name: "entry in parts", do: w.append(2_200_000)},
		{name: "line", do: w.line(10)},
		{name: "long line", do: w.line(200_000)},
		{name: "file", do: w.put(10)},
		{name: "large file", do: w.put(2_200_000)},
		{name: "request", do: w.ask(10), serves: true},
		{name: "large request", do: w.ask(200_000), serves: true},
		{name: "lane", serves: true, do: func(ctx context.Context) error { return w.slot(ctx, lane) }},
	} {
		if kind.name == "request" {
			serving.Go(func() {
				err := store.Owners.Serve(ctx, session.Member{
					Handle: func(_ context.Context, r session.Request) []byte { return r.Body },
				})
				check(t, err == nil, "serve: %v", err)
			})
		}
		for _, fault := range allFaults[:Rounds(usualFaults, len(allFaults))] {
			w.each(ctx, kind, fault, faults, hidden)
		}
	}
	w.verify()
}

// A kindOfWrite is a kind of change.
type kindOfWrite struct {
	name   string
	do     func(ctx context.Context) error
	serves bool // the process serves meanwhile, and makes other writes
}

// each makes a change again and again, the n-th time with the n-th write failing, until it makes
// fewer writes.
func (w *writing) each(
	ctx context.Context, kind kindOfWrite, fault Fault, faults *Faults, hidden bool,
) {
	w.t.Helper()
	const most, mostServing = 40, 8
	for i := 1; !kind.serves || i <= mostServing; i++ {
		w.n++
		w.again = false
		faults.Arm(fault, i)
		err := kind.do(ctx)
		hit := faults.Disarm()
		for try := 0; err != nil; try++ {
			if hidden || session.IsPermanent(err) || try > most {
				w.t.Fatalf("%s: the write %d fails (%v): %v", kind.name, i, fault, err)
			}
			w.again = true
			err = kind.do(ctx)
		}
		if !hit {
			return
		}
		check(w.t, i < most, "%s makes more and more writes", kind.name)
	}
}

// claim claims another tree each time.
func (w *writing) claim(ctx context.Context) error {
	_, err := w.store.Owners.Claim(ctx, session.Must(session.NamedKey("main", fmt.Sprint(w.n))))
	return err
}

// append appends a batch of so many bytes, unless it is there.
func (w *writing) append(size int) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		b := session.Batch{ID: session.BatchID(fmt.Sprint(w.n)), Entries: []session.Entry{{
			Payload: session.Raw(fmt.Sprintf("%q", bytes.Repeat([]byte("x"), size))),
		}}}
		seq, err := w.store.Journal.Append(ctx, w.root, w.last, b)
		if w.again && errors.Is(err, session.ErrConflict) { // with itself, as may be
			for e, failed := range w.store.Journal.Read(ctx, w.root, w.last) {
				if err = failed; err == nil && e.Batch == b.ID {
					seq = e.Seq
				}
			}
		}
		if err == nil {
			w.last, w.batches = seq, append(w.batches, b.ID)
		}
		return err
	}
}

// line appends a line of so many bytes, unless it is there.
func (w *writing) line(size int) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		text := fmt.Sprint(w.n, string(bytes.Repeat([]byte("x"), size)))
		pos, err := w.store.Transcripts.Append(ctx, w.ref, w.pos,
			session.Message{Role: session.MessageUser, Text: text})
		if w.again && errors.Is(err, session.ErrConflict) { // with itself, as may be
			for l, failed := range w.store.Transcripts.Read(ctx, w.ref, session.LineQuery{}) {
				if err = failed; err == nil && l.Message.Text == text {
					pos = l.Pos
				}
			}
		}
		if err == nil {
			w.pos, w.lines = pos, append(w.lines, text)
		}
		return err
	}
}

// put puts a file of so many bytes.
func (w *writing) put(size int) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		data := append(fmt.Append(nil, w.n), bytes.Repeat([]byte("x"), size)...)
		file, err := w.store.Files.Put(ctx, w.ref, bytes.NewReader(data), session.File{})
		if err == nil {
			w.files = append(w.files, file)
		}
		return err
	}
}

// ask asks the process itself, which answers with what it is asked.
func (w *writing) ask(size int) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		_, err := w.store.Owners.Claim(ctx, w.root)
		if err != nil {
			return err
		}
		body := bytes.Repeat([]byte("x"), size)
		answer, err := w.store.Owners.Call(ctx, session.Request{
			ID: fmt.Sprint(w.n), Root: w.root, Body: body,
		})
		check(w.t, err != nil || bytes.Equal(answer, body), "another answer has come")
		return err
	}
}

// slot takes a slot of a lane, and gives it back.
func (w *writing) slot(ctx context.Context, lane session.Lane) error {
	id := fmt.Sprint(w.n)
	if err := lane.Ask(session.Ticket{ID: id}); err != nil {
		return err
	}
	defer lane.Free(id)
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		select {
		case got := <-w.granted:
			if got == id {
				return nil
			}
		case <-within.Done():
			return session.ErrClosed // for good
		}
	}
}

// verify fails the test unless what was written is there, each once and in order.
func (w *writing) verify() {
	w.t.Helper()
	var batches []session.BatchID
	for e, err := range w.store.Journal.Read(w.t.Context(), w.root, 0) {
		must(w.t, "read the log", err)
		batches = append(batches, e.Batch)
	}
	check(w.t, fmt.Sprint(batches) == fmt.Sprint(w.batches), "the log has the batches %v, want %v",
		batches, w.batches)
	n := 0
	for l, err := range w.store.Transcripts.Read(w.t.Context(), w.ref, session.LineQuery{}) {
		must(w.t, "read the transcript", err)
		check(w.t, n < len(w.lines) && l.Message.Text == w.lines[n], "line %d is another one", n)
		n++
	}
	check(w.t, n == len(w.lines), "there are %d lines, want %d", n, len(w.lines))
	for _, file := range w.files {
		_, err := session.ReadFile(w.t.Context(), w.store.Files, w.ref, file)
		must(w.t, "read a file", err)
	}
	w.t.Logf("%d changes were made", w.n)
}
