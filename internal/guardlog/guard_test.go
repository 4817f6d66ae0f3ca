package guardlog_test

import (
	"bytes"
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/guardlog"
)

// badHandler panics in the method with a name.
type badHandler struct {
	slog.Handler
	in string
}

func (h badHandler) call(method string) {
	if h.in == method {
		panic("log: " + method)
	}
}

func (h badHandler) Enabled(ctx context.Context, level slog.Level) bool {
	h.call("Enabled")
	return h.Handler.Enabled(ctx, level)
}

func (h badHandler) Handle(ctx context.Context, r slog.Record) error {
	h.call("Handle")
	return h.Handler.Handle(ctx, r)
}

func (h badHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.call("WithAttrs")
	if h.in == "nil" {
		return nil
	}
	return badHandler{h.Handler.WithAttrs(attrs), h.in}
}

func (h badHandler) WithGroup(name string) slog.Handler {
	h.call("WithGroup")
	return badHandler{h.Handler.WithGroup(name), h.in}
}

// R12: no method of a Handler breaks the code that logs, and what can be logged is.
func TestHandlersThatPanic(t *testing.T) {
	t.Parallel()
	for in, logged := range map[string]bool{
		"": true, "Enabled": false, "Handle": false, "WithAttrs": true, "WithGroup": true,
		"nil": true,
	} {
		var out bytes.Buffer
		log := guardlog.New(slog.New(badHandler{slog.NewTextHandler(&out, nil), in}))
		require.Equal(t, log, guardlog.New(log), "it is wrapped once")
		log.With("a", 1).WithGroup("g").Warn("hello", "b", 2)
		require.Equal(t, logged, bytes.Contains(out.Bytes(), []byte("hello")), in)
	}
	guardlog.New(nil).Error("it is discarded")
	guardlog.New(&slog.Logger{}).Error("it has no Handler")
}
