package otel

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/offshoot-sdk/offshoot/spawn"
)

// Limits of the calls of a State, of a flush of the TracerProvider, and of what New asks.
const (
	openLimit = 10 * time.Second // of a Tracer, or of a Meter with its instruments
	loadLimit = 30 * time.Second // of State.Load
	findLimit = 30 * time.Second // of a look for trees that the State does not know
	saveLimit = 10 * time.Second // of a save, a flush, a span and what is measured of an event
	grace     = time.Second      // to return when the ctx of the call has ended
)

// ErrHangs says that a call has not returned when its ctx had ended or, of one that has none, in 10
// seconds; or that an earlier one has not returned yet.
var ErrHangs = errors.New("otel: it does not return")

// A CallError says that code of the program has not returned as it must.
type CallError struct {
	// Call is "State.Load", "State.Save", "Tracer.ForceFlush", "Tracer" or "Meter". Where another
	// call is not made because of one that hangs, it is that one.
	Call string
	Err  error // a *spawn.PanicError, spawn.ErrExited or ErrHangs
}

// Error says what it did.
func (e *CallError) Error() string {
	what := e.Err.Error()
	switch {
	case errors.Is(e.Err, spawn.ErrExited):
		what = "it ended its goroutine"
	case errors.Is(e.Err, ErrHangs):
		what = "it does not return"
	}
	return "otel: " + e.Call + ": " + what
}

// Unwrap returns Err.
func (e *CallError) Unwrap() error { return e.Err }

// open calls code of the program while an Exporter is made, for up to openLimit. A call that has
// not returned then is left behind: it has no ctx that could end it.
func open[T any](name string, f func() (T, error)) (T, error) {
	var made T
	done := make(chan error, 1)
	go contained(name, func() (err error) { // the select below waits for it, or leaves it behind
		made, err = f()
		return err
	}, done)
	patience := time.NewTimer(openLimit)
	defer patience.Stop()
	select {
	case err := <-done:
		return made, err
	case <-patience.C: // made may still be written to
		var none T
		return none, &CallError{Call: name, Err: ErrHangs}
	}
}

// lose logs that something could not be exported, and how often since it was logged last: at once,
// and then at most once in an Interval.
func (x *Exporter) lose(err error, now time.Time) {
	x.lost++
	if now.Sub(x.told) < x.cfg.Interval {
		return
	}
	x.cfg.Logger.Warn("otel: a span or a measurement is lost", "error", err, "lost", x.lost)
	x.lost, x.told = 0, now
}

// call calls code of the program, one call after the other, for up to a limit. A call that does not
// return after its ctx has ended is left behind, and until it has returned no other one is made:
// the error of that names the one that hangs. Whatever f does comes back as an error; what it has
// written is read only if it has returned.
func (x *Exporter) call(
	ctx context.Context, name string, limit time.Duration, f func(ctx context.Context) error,
) error {
	if x.behind != nil {
		select {
		case <-x.behind:
			x.behind = nil
		default:
			return &CallError{Call: x.hangs, Err: ErrHangs}
		}
	}
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	done := make(chan error, 1)
	ended := make(chan struct{})
	go func() { // the select below waits for it, or leaves it behind
		defer close(ended)
		contained(name, func() error { return f(ctx) }, done)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	patience := time.NewTimer(grace)
	defer patience.Stop()
	select {
	case err := <-done:
		return err
	case <-patience.C:
		x.behind, x.hangs = ended, name
		return &CallError{Call: name, Err: ErrHangs}
	}
}

// contained calls f and sends what comes of it, also if f panics or ends its goroutine. The text of
// an error and of what f panics with is read here, since reading it may do the same.
func contained(name string, f func() error, done chan<- error) {
	var err error = &CallError{Call: name, Err: spawn.ErrExited}
	defer func() { done <- err }()
	defer func() {
		if value := recover(); value != nil {
			stack := debug.Stack()
			err = &CallError{
				Call: name, Err: &spawn.PanicError{Value: fmt.Sprint(value), Stack: stack},
			}
		}
	}()
	got := f()
	if got != nil {
		_ = got.Error()
	}
	err = got
}
