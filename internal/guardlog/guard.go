package guardlog

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/offshoot-sdk/offshoot/internal/secret"
)

// New returns a Logger with the Handler of another one, whose panics it contains: a record on
// which that panics is lost. Texts are masked and bounded on their way, see [secret.Handler]. A nil
// Logger discards what it is told.
//
// A Handler that calls runtime.Goexit ends the goroutine that logs, because Go has no way to stop
// that, and a goroutine for each record would cost more than most records. The code that logs has
// said what it came to before it logs.
func New(l *slog.Logger) *slog.Logger { return NewBy(l, nil) }

// NewBy is New with a function that masks texts; nil: [secret.Mask].
func NewBy(l *slog.Logger, mask func(string) string) *slog.Logger {
	if l == nil {
		return slog.New(slog.DiscardHandler)
	}
	inner := l.Handler()
	if _, guarded := inner.(handler); guarded {
		return l
	}
	return slog.New(handler{secret.Handler{Handler: handler{inner}, By: mask}})
}

// handler is a slog.Handler that contains the panics of another one.
type handler struct{ slog.Handler }

// Handle implements slog.Handler.
func (h handler) Handle(ctx context.Context, r slog.Record) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("guardlog: the Handler panicked: %v", p)
		}
	}()
	return h.Handler.Handle(ctx, r)
}

// Enabled implements slog.Handler. A Handler that panics is not enabled.
func (h handler) Enabled(ctx context.Context, level slog.Level) (on bool) {
	defer func() { _ = recover() }()
	return h.Handler.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler. The result is guarded, too. A Handler that panics is used
// without the attributes.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.with(func() slog.Handler { return h.Handler.WithAttrs(attrs) })
}

// WithGroup implements slog.Handler like WithAttrs.
func (h handler) WithGroup(name string) slog.Handler {
	return h.with(func() slog.Handler { return h.Handler.WithGroup(name) })
}

func (h handler) with(f func() slog.Handler) (with slog.Handler) {
	defer func() {
		if recover() != nil {
			with = h
		}
	}()
	if inner := f(); inner != nil {
		return handler{inner}
	}
	return h
}
