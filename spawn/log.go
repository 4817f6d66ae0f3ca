package spawn

import (
	"context"
	"log/slog"
)

// logBeside logs in a goroutine of its own, for the owners of trees: the Logger is code of the
// caller, which may hang, or end its goroutine. If no goroutine can be started any more, it logs in
// place.
func (s *Supervisor) logBeside(level slog.Level, text string, args ...any) {
	log := func() { s.log.Log(s.detachedCtx, level, text, args...) }
	if !s.workers.start(taskFunc(log)) {
		log()
	}
}

// guardedHandler is a slog.Handler that contains the panics of another one.
type guardedHandler struct{ slog.Handler }

// Handle implements slog.Handler.
func (h guardedHandler) Handle(ctx context.Context, r slog.Record) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{Value: p}
		}
	}()
	return h.Handler.Handle(ctx, r)
}

// Enabled implements slog.Handler.
func (h guardedHandler) Enabled(ctx context.Context, level slog.Level) (on bool) {
	defer func() { _ = recover() }()
	return h.Handler.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler. The result is guarded, too. A handler that panics is used
// without the attributes.
func (h guardedHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.with(func() slog.Handler { return h.Handler.WithAttrs(attrs) })
}

// WithGroup implements slog.Handler like WithAttrs.
func (h guardedHandler) WithGroup(name string) slog.Handler {
	return h.with(func() slog.Handler { return h.Handler.WithGroup(name) })
}

func (h guardedHandler) with(f func() slog.Handler) (with slog.Handler) {
	defer func() {
		if recover() != nil {
			with = h
		}
	}()
	return guardedHandler{f()}
}
