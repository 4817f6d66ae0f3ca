package secret

import (
	"context"
	"log/slog"
	"regexp"
	"strings"

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
	masked := text.Line(Clean(mask, s))
	if masked != text.Line(clean) && masked != text.Line(mask(line)) {
		return masked
	}
	return line
}

// OneLine returns what mask makes of s as one line, see [text.Line]. It is masked as it was written
// and as it is there: what cuts it then, such as a list, leaves no part of a secret.
func OneLine(mask func(string) string, s string) string {
	line := text.Line(mask(s))
	if line == s {
		return s
	}
	return text.Line(mask(line))
}

// Clean returns s as [text.WithoutControls] does, masked. What a control takes with it, such as the
// character behind an escape, hides no secret from mask, be it read with it or without it. Nor does
// a control token of a template, see [Bare].
func Clean(mask func(string) string, s string) string {
	if strings.IndexFunc(s, takesText) >= 0 {
		s = mask(s)
	}
	return mask(Bare(mask, text.WithoutControls(s)))
}

// Bare returns s as it is, or without the control tokens of templates, such as <|im_end|>, if they
// hide a secret from mask. A text that is shown as it was written keeps its tokens otherwise.
func Bare(mask func(string) string, s string) string {
	bare := withoutTokens(s)
	if bare == s || mask(bare) == withoutTokens(mask(s)) {
		return s
	}
	return bare
}

// controlToken is a control token of a template, of at most 256 bytes between its pipes.
var controlToken = regexp.MustCompile("<[|｜][^ `|｜][^`|｜]{0,255}[|｜]>")

// withoutTokens returns s with nothing for the control tokens in a row, or with a blank if they
// stand between two words, as people are shown it.
func withoutTokens(s string) string {
	if !strings.Contains(s, "<|") && !strings.Contains(s, "<｜") {
		return s
	}
	var out strings.Builder
	from := 0
	for _, at := range controlToken.FindAllStringIndex(s, -1) {
		if at[0] == from && from > 0 {
			from = at[1] // it is in a row with the last one
			continue
		}
		joinWords(&out, s[from:at[0]])
		from = at[1]
	}
	joinWords(&out, s[from:])
	return out.String()
}

// joinWords adds a text to another, with a blank between two words.
func joinWords(out *strings.Builder, s string) {
	if before := out.String(); before != "" && s != "" && inWord(before[len(before)-1]) &&
		inWord(s[0]) {
		out.WriteByte(' ')
	}
	out.WriteString(s)
}

// takesText reports whether what follows a control may go with it: it begins a sequence.
func takesText(r rune) bool { return r == 0x1b || r >= 0x80 && r <= 0x9f && r != 0x85 }

// TextBy is [Text] with a function that masks more than Mask.
func TextBy(mask func(string) string, s string) string {
	shown := text.Bound(Clean(mask, s), MaxText)
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
