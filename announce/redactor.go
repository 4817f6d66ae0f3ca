package announce

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/offshoot-sdk/offshoot/internal/secret"
)

// A Redaction is what a program has masked beyond what [Redact] knows. The zero Redaction is
// nothing.
type Redaction struct {
	// Patterns are regular expressions of package regexp. A match is looked for within one line,
	// of which each 16 KB are looked at on their own, and is masked: what its first group has
	// matched that matched something, or all of it. There are at most 100, of at most 1,000 bytes
	// each.
	Patterns []string
	// Secrets are values that are masked wherever they stand: as they are, in the escapes of URLs,
	// of JSON, of markup and of strings in programs, in any mixture and one in another, up to 4
	// times and 128 bytes for a character, and in base64, where they may be the middle of a longer
	// text and broken into lines. What a reader does not see within a secret does not count. In
	// one of 6 bytes and more a line break does not, either, nor how the line behind it is indented
	// or quoted, nor a blank between two letters or digits, which Visible writes in the place of a
	// control token. Each has 4 to 4,096 bytes, and there are at most 1,000. What is shorter than 6
	// bytes is not looked for in base64.
	//
	// A secret whose spelling in the text, with what does not count, takes more than 16,384 bytes
	// and 16 for each byte of the longest secret is not masked there. A hostile text costs up to
	// about 3 microseconds a byte if a secret repeats itself, and if one begins with many
	// backslashes 300.
	Secrets []string
	// Open are the boundaries at which nothing is masked, such as [BoundaryReplies], or several
	// with '|' between them. It is for package agent. Zero: all are closed.
	Open Boundary
}

// String says how many patterns and secrets r has, and shows none of them.
func (r Redaction) String() string {
	return fmt.Sprintf("%d patterns and %d secrets", len(r.Patterns), len(r.Secrets))
}

// Format implements fmt.Formatter: every verb prints what String returns.
func (r Redaction) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, r.String()) // fmt does not tell either
}

// LogValue implements slog.LogValuer with what String returns.
func (r Redaction) LogValue() slog.Value { return slog.StringValue(r.String()) }

// A Boundary is what a text crosses on its way out of a session.
type Boundary uint8

// The boundaries that a [Redaction] can open.
const (
	BoundaryReplies Boundary = 1 << iota // what people are told: replies and updates
	BoundaryModels                       // what a sub-agent or another tree tells a session's model
)

// Bounds of a Redaction.
const (
	maxPatterns     = 100
	maxPatternSize  = 1000   // bytes
	maxPatternSteps = 10_000 // of the program that package regexp makes of it
	maxSecrets      = 1000
	minSecretSize   = secret.MinOwn
	maxSecretSize   = secret.MaxOwn
)

// A PatternError says why a pattern or a secret of a [Redaction] is refused. It never holds a
// secret.
type PatternError struct {
	Field   string // "Patterns[2]", "Secrets[0]"
	Pattern string // the pattern; empty for a secret
	Reason  string
	Err     error // what package regexp says; nil if the pattern compiles
}

// Error implements error.
func (e *PatternError) Error() string {
	if e.Pattern == "" {
		return fmt.Sprintf("announce: redaction: %s: %s", e.Field, e.Reason)
	}
	return fmt.Sprintf("announce: redaction: %s: %q: %s", e.Field, e.Pattern, e.Reason)
}

// Unwrap returns what package regexp says.
func (e *PatternError) Unwrap() error { return e.Err }

// A Redactor is [Redact] with what a program has masked of its own, and is made once. A nil
// Redactor and the zero Redactor are Redact alone. A Redactor is safe for concurrent use, and is
// not copied.
type Redactor struct {
	own  atomic.Pointer[secret.Own]
	open Boundary

	mu       sync.Mutex // of what own is made of
	patterns []*regexp.Regexp
	secrets  []string // of the Redaction
	learned  []string // see Learn, the oldest first
}

// String says how many patterns and secrets r knows, and shows none of them.
func (r *Redactor) String() string {
	if r == nil {
		return Redaction{}.String()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprintf("%d patterns and %d secrets", len(r.patterns), len(r.secrets)+len(r.learned))
}

// Format implements fmt.Formatter: every verb prints what String returns.
func (r *Redactor) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, r.String()) // fmt does not tell either
}

// LogValue implements slog.LogValuer with what String returns.
func (r *Redactor) LogValue() slog.Value { return slog.StringValue(r.String()) }

// NewRedactor returns the Redactor of a Redaction. The error joins a [*PatternError] for each
// pattern and secret that is refused: a pattern that does not compile, that is too large, that can
// match the empty text, that would mask most of any prose, or that can match nothing within a line;
// a secret that is so short that it is a part of other words, or too long.
//
// Package regexp takes time linear in the text for every pattern, so that none can be slow. What
// other engines need backtracking for, lookaround and references to groups, does not compile.
func NewRedactor(r Redaction) (*Redactor, error) {
	var errs []error
	refuse := func(field string, i int, pattern, reason string, err error) {
		errs = append(errs, &PatternError{fmt.Sprintf("%s[%d]", field, i), pattern, reason, err})
	}
	var patterns []*regexp.Regexp
	for i, p := range r.Patterns {
		if i == maxPatterns {
			refuse("Patterns", i, "", fmt.Sprintf("there are more than %d", maxPatterns), nil)
			break
		}
		re, reason, err := compile(p)
		if reason != "" {
			refuse("Patterns", i, p[:min(len(p), maxPatternSize)], reason, err)
			continue
		}
		patterns = append(patterns, re)
	}
	for i, s := range r.Secrets {
		switch {
		case i == maxSecrets:
			refuse("Secrets", i, "", fmt.Sprintf("there are more than %d", maxSecrets), nil)
		case i > maxSecrets:
		case len(strings.TrimSpace(s)) < minSecretSize:
			refuse("Secrets", i, "", fmt.Sprintf("it has less than %d bytes", minSecretSize), nil)
		case len(s) > maxSecretSize:
			refuse("Secrets", i, "", fmt.Sprintf("it has more than %d bytes", maxSecretSize), nil)
		}
	}
	if unknown := r.Open &^ (BoundaryReplies | BoundaryModels); unknown != 0 {
		errs = append(errs, &PatternError{
			Field: "Open", Reason: fmt.Sprintf("%d has a bit that is not a boundary", r.Open),
		})
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	own := secret.NewOwn(withLeavings(r.Secrets), patterns)
	if own == nil && r.Open == 0 {
		return nil, nil //nolint:nilnil // a nil Redactor is Redact
	}
	made := &Redactor{open: r.Open, patterns: patterns, secrets: slices.Clone(r.Secrets)}
	made.own.Store(own)
	return made, nil
}

// Learn has secrets masked from now on that were not known when the Redactor was made, such as a
// credential that has just been read. They are masked as [Redaction].Secrets are. What has less
// than 4 bytes without outer space, or more than 4,096, is passed over, and of more than 1,000 that
// were learned the oldest is forgotten. A [Stream] that was made before does not mask them.
//
// To learn what is known costs little. What is new costs time linear in all that is known.
func (r *Redactor) Learn(secrets ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fresh := false
	for _, s := range secrets {
		if !secret.IsOwn(s) || slices.Contains(r.secrets, s) {
			continue
		}
		if i := slices.Index(r.learned, s); i >= 0 {
			r.learned = slices.Delete(r.learned, i, i+1)
		} else {
			fresh = true
		}
		r.learned = append(r.learned, s)
	}
	if !fresh {
		return
	}
	if over := len(r.learned) - maxSecrets; over > 0 {
		r.learned = slices.Delete(r.learned, 0, over)
	}
	r.own.Store(secret.NewOwn(withLeavings(slices.Concat(r.secrets, r.learned)), r.patterns))
}

// owned returns what is the program's own, nil for nothing.
func (r *Redactor) owned() *secret.Own {
	if r == nil {
		return nil
	}
	return r.own.Load()
}

// At is Redact for a text that crosses a boundary. It returns the text as it is where that is open.
func (r *Redactor) At(b Boundary, text string) string {
	if r != nil && r.open&b != 0 {
		return text
	}
	return r.Redact(text)
}

// Redact masks what is the program's own, as "***", and then as [Redact] does.
func (r *Redactor) Redact(text string) string {
	return r.owned().Mask(text)
}

// RedactOwn masks what is the program's own, as "***", and nothing else. It is for a text that may
// have credentials of others for a good reason, such as what a tool has made.
func (r *Redactor) RedactOwn(text string) string { return r.owned().MaskOwn(text) }

// Stream returns a [Stream] that shows what Redact of the Redactor leaves of what Visible returns.
// If there are patterns, it holds back a line, of at most 16 KB. With secrets it holds back what
// may be the beginning of one, of at most 16 KB and 16 bytes for each byte of the longest, and up
// to half as much again.
func (r *Redactor) Stream() *Stream {
	s := new(Stream)
	if own := r.owned(); own != nil {
		s.own = own.Pass()
	}
	return s
}

// RedactJSON masks the credentials in a JSON text, such as the arguments of a tool call, and leaves
// it JSON. Each string is masked as the text that it stands for; before that, clean is applied to
// it, unless clean is nil. What a secret name has is masked as a whole. A text that is not JSON is
// masked as a text. RedactJSON reports whether it masked something.
func (r *Redactor) RedactJSON(text string, clean func(string) string) (out string, masked bool) {
	if clean == nil {
		clean = func(s string) string { return s }
	}
	return r.owned().MaskJSON(text, clean)
}

// prose is a text that no pattern may mask most of.
const prose = "The quick brown fox jumps over 13 lazy dogs; see https://example.com/a for more (p. 7)."

// compile returns a pattern, or why it is refused.
func compile(pattern string) (re *regexp.Regexp, reason string, err error) {
	switch {
	case pattern == "":
		return nil, "it is empty", nil
	case len(pattern) > maxPatternSize:
		return nil, fmt.Sprintf("it has %d bytes, %d are allowed", len(pattern), maxPatternSize),
			nil
	}
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, "it does not compile (package regexp has no lookaround and no references to " +
			"groups, which need backtracking): " + err.Error(), err
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, "it does not compile: " + err.Error(), err
	}
	switch least := leastMatch(tree); {
	case len(prog.Inst) > maxPatternSteps:
		return nil, fmt.Sprintf("it is too large: %d steps, %d are allowed", len(prog.Inst),
			maxPatternSteps), nil
	case least == 0:
		return nil, "it can match the empty text", nil
	case least == math.MaxInt:
		return nil, "it can match nothing within a line", nil
	}
	if re, err = regexp.Compile(pattern); err != nil {
		return nil, "it does not compile: " + err.Error(), err
	}
	covered := 0
	for _, at := range re.FindAllStringIndex(prose, -1) {
		covered += at[1] - at[0]
	}
	if 2*covered > len(prose) {
		return nil, "it matches everything: it would mask most of any text", nil
	}
	return re, "", nil
}

// leastMatch returns how many bytes a match within a line has at least. It is math.MaxInt if there
// is none.
func leastMatch(tree *syntax.Regexp) int {
	switch tree.Op {
	case syntax.OpNoMatch:
		return math.MaxInt
	case syntax.OpLiteral:
		if slices.Contains(tree.Rune, '\n') {
			return math.MaxInt
		}
		return len(tree.Rune)
	case syntax.OpCharClass:
		if len(tree.Rune) == 0 || len(tree.Rune) == 2 && tree.Rune[0] == '\n' &&
			tree.Rune[1] == '\n' {
			return math.MaxInt
		}
		return 1
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return 1
	case syntax.OpCapture, syntax.OpPlus:
		return leastMatch(tree.Sub[0])
	case syntax.OpRepeat:
		if tree.Min == 0 {
			return 0
		}
		if sub := leastMatch(tree.Sub[0]); sub == math.MaxInt {
			return sub
		}
		return tree.Min * leastMatch(tree.Sub[0])
	case syntax.OpConcat:
		sum := 0
		for _, sub := range tree.Sub {
			n := leastMatch(sub)
			if n == math.MaxInt {
				return n
			}
			sum += n
		}
		return sum
	case syntax.OpAlternate:
		least := math.MaxInt
		for _, sub := range tree.Sub {
			least = min(least, leastMatch(sub))
		}
		return least
	default: // a place, or what may be missing
		return 0
	}
}
