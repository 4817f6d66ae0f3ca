package secret

import (
	"context"
	"log/slog"

	"github.com/offshoot-sdk/offshoot/internal/text"
)

// MaxText is how many bytes are shown of an error, a panic or a stack.
const MaxText = 10_000

// Text returns what is shown of the text of an error, a panic or a stack: what steers a terminal or
// is not drawn is removed, then its credentials are masked, and what is longer than MaxText is cut,
// with a note. Text(Text(s)) equals Text(s).
func Text(s string) string { return TextBy(Mask, s) }

// Line returns s as [text.Line] does. Where a line break or a control sequence in s hides a secret
// from mask, it is masked without them: what reads the line could not find the secret any more.
// What mask finds in the line stays as it is.
func Line(mask func(string) string, s string) string {
	line := text.Line(s)
	if line == s {
		return s
	}
	clean := text.WithoutControls(s)
	masked := text.Line(mask(clean))
	if masked != text.Line(clean) && masked != text.Line(mask(line)) {
		return masked
	}
	return line
}

// TextBy is [Text] with a function that masks more than Mask.
func TextBy(mask func(string) string, s string) string {
	shown := text.Bound(mask(text.WithoutControls(s)), MaxText)
	for range maxRounds { // the cut may leave a part of a mask, which is masked again
		again := text.Bound(mask(shown), MaxText)
		if again == shown {
			break
		}
		shown = again
	}
	return shown
}

const maxRounds = 4

// Handler is a slog.Handler that shows strings and errors as Text does. It leaves the keys of
// sessions and deliveries alone, which are names that the program gave.
type Handler struct {
	slog.Handler

	By func(string) string // masks texts; nil: Mask
}

// Handle implements slog.Handler.
func (h Handler) Handle(ctx context.Context, r slog.Record) error {
	shown := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		shown.AddAttrs(h.attr(a))
		return true
	})
	return h.Handler.Handle(ctx, shown)
}

// WithAttrs implements slog.Handler.
func (h Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	shown := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		shown[i] = h.attr(a)
	}
	return Handler{h.Handler.WithAttrs(shown), h.By}
}

// WithGroup implements slog.Handler.
func (h Handler) WithGroup(name string) slog.Handler {
	return Handler{h.Handler.WithGroup(name), h.By}
}

// attr returns what is shown of an attribute.
func (h Handler) attr(a slog.Attr) slog.Attr {
	by := h.By
	if by == nil {
		by = Mask
	}
	switch a.Key {
	case "session", "root", "to", "key":
		return a
	}
	switch v := a.Value; v.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(TextBy(by, v.String()))
	case slog.KindAny:
		if err, ok := v.Any().(error); ok {
			a.Value = slog.StringValue(TextBy(by, err.Error()))
		}
	default: // it is short, and not a text
	}
	return a
}
