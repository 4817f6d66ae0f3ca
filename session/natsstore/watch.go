package natsstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/offshoot-sdk/offshoot/session"
)

// A watch is what is known of a stream: whether it is still the one that was opened, and whether it
// takes what is written.
type watch struct {
	created time.Time

	mu      sync.Mutex
	seen    time.Time // when it was last the one that was opened
	cuts    int64     // of the connection, before that
	failing error     // of the last message that was written, nil if the stream has taken it
}

// watchAge is for how long a stream is taken for the one that was opened, while the connection is
// there.
const watchAge = time.Second

func newWatch(created time.Time) *watch { return &watch{created: created, seen: time.Now()} }

// verify returns a *[LostError] if the stream is not the one that was opened. The server is asked
// after a while, after the connection was cut off, and where now is set.
func (s stream) verify(ctx context.Context, now bool) error {
	if lost := s.e.lost.Load(); lost != nil {
		return lost
	}
	if s.watch == nil {
		return nil
	}
	cuts, asked := s.e.line.cuts.Load(), time.Now()
	s.mu.Lock()
	fresh := !now && s.cuts == cuts && asked.Sub(s.seen) < watchAge
	s.mu.Unlock()
	if fresh {
		return nil
	}
	info, err := s.Info(ctx)
	if err != nil {
		return err
	}
	if !info.Created.Equal(s.created) {
		return s.e.lose(&LostError{
			Stream: "stream " + info.Config.Name,
			Reason: fmt.Sprintf("it was made at %v, and the one that was opened at %v",
				info.Created.UTC(), s.created.UTC()),
		})
	}
	s.confirm(asked, cuts)
	return nil
}

// confirm notes when the stream was the one that was opened.
func (w *watch) confirm(at time.Time, cuts int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen, w.cuts = at, cuts
}

// doubt has the next request ask whether the stream is the one that was opened.
func (w *watch) doubt() {
	if w != nil {
		w.confirm(time.Time{}, 0)
	}
}

// lose ends what the Store does, and returns why. The first reason stands.
func (e *engine) lose(lost *LostError) error {
	e.lost.CompareAndSwap(nil, lost)
	return e.lost.Load()
}

// noteWrite notes what has become of a message that was written from a time on, and returns why it
// has failed. A server whose disk was full may answer, and take nothing.
func (s stream) noteWrite(ctx context.Context, begun time.Time, err error) error {
	early := ctx.Err() != nil && time.Since(begun) < s.timeout/tries
	if s.watch == nil || early || errors.Is(err, session.ErrClosed) {
		return err
	}
	if errors.Is(err, ErrTimeout) {
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if _, failed := s.Info(within); failed == nil {
			err = &unwrittenError{s.name, err}
		}
	}
	s.wrote(err)
	return err
}

// wrote notes what has become of the last message that was written.
func (w *watch) wrote(err error) {
	if errors.Is(err, errMoved) {
		err = nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failing = err
}

// An unwrittenError says that a stream does not take messages, although the server answers. It is
// [ErrTimeout].
type unwrittenError struct {
	stream string
	err    error
}

func (e *unwrittenError) Error() string {
	cause := strings.TrimPrefix(e.err.Error(), ErrTimeout.Error()+": ")
	return fmt.Sprintf("natsstore: the server answers, but the stream of %s takes nothing "+
		"(if its disk was full: make room, and restart the server): %s", e.stream, cause)
}

func (e *unwrittenError) Unwrap() error { return e.err }

// probeKind is the kind of messages that say nothing, and probeSize is how many bytes they have: a
// stream whose room is used up may still take a few.
const (
	probeKind = "h"
	probeSize = 64 << 10
)

// probe returns nil if the stream has taken the last message that was written, or takes another
// one.
func (s stream) probe(ctx context.Context) error {
	s.mu.Lock()
	failing := s.failing
	s.mu.Unlock()
	if failing == nil {
		return nil
	}
	data := make([]byte, min(probeSize, s.e.room))
	seq, err := s.publish(ctx, publication{
		subject: s.subject(probeKind), data: data, ttl: time.Minute,
	})
	if err == nil {
		_ = s.remove(ctx, seq) // or it goes by itself
		return nil
	}
	return fmt.Errorf("what was last written to %s was not taken: %w", s.name, failing)
}
