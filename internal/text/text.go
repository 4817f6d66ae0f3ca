package text

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// MaxQuoted is how many runes of an input an error repeats at most.
const MaxQuoted = 100

// QuoteWhole is [Quote] for what may be a secret that the receiver masks: of a long s it returns
// how long it is, and no beginning, which no mask would know.
func QuoteWhole(s string) string {
	if len(s) > MaxQuoted {
		return "a text of " + Count(len(s), "byte", "bytes")
	}
	return Quote(s)
}

// Quote returns s in quotation marks, for an error text. Of a long s it returns the beginning and
// how many bytes s has.
func Quote(s string) string {
	head, n := s, 0
	for i := range s {
		if n++; n > MaxQuoted {
			head = s[:i]
			break
		}
	}
	if len(head) == len(s) {
		return strconv.Quote(s)
	}
	return fmt.Sprintf("%s... (%d bytes)", strconv.Quote(head), len(s))
}

// Word returns s for a line of text that people read. A name, a path, a key or a number stays as it
// is. Any other text is quoted, so that what surrounds it cannot be mistaken for a part of it, and
// a long one is shortened.
func Word(s string) string {
	plain := func(r rune) bool {
		return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' ||
			strings.ContainsRune("._:/@+-#*", r)
	}
	odd := strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) >= 0
	if s != "" && len(s) <= MaxName && !odd {
		return s
	}
	return Quote(s)
}

// Escape returns s with each character that is not drawn as an escape of Go: line breaks, controls,
// separators, and what turns the direction of a text. Spaces stay.
func Escape(s string) string {
	drawn := func(r rune) bool { return r == ' ' || unicode.IsPrint(r) && isVisible(r) }
	if strings.IndexFunc(s, func(r rune) bool { return !drawn(r) || r == utf8.RuneError }) < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		part := s[i : i+n]
		if !drawn(r) || r == utf8.RuneError && n == 1 {
			part = strings.Trim(strconv.QuoteToASCII(part), `"`)
		}
		b.WriteString(part)
		i += n
	}
	return b.String()
}

// Cut returns the longest prefix of s that has at most n bytes and does not split a character.
func Cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// Bound returns s, or, if it has more than limit bytes, its beginning and a note of how many there
// were, in limit bytes. Of a text that Bound has cut before, the note says how many there were at
// first. The note is short where the long one would take more than half of the limit. It always has
// room in 40 bytes. A negative limit bounds nothing.
func Bound(s string, limit int) string {
	if limit < 0 || len(s) <= limit {
		return s
	}
	had := Count(len(s), "byte", "bytes")
	if m := cutNote.FindStringSubmatchIndex(s[max(len(s)-maxNote, 0):]); m != nil {
		tail := s[max(len(s)-maxNote, 0):]
		if n, err := strconv.Atoi(tail[m[2]:m[3]]); err == nil && n > len(s) {
			had, s = Count(n, "byte", "bytes"), s[:len(s)-len(tail)+m[0]]
		}
	}
	note := fmt.Sprintf("\n[cut here: it had %s, and %d are kept at most]", had, limit)
	if 2*len(note) > limit {
		note = fmt.Sprintf("\n[cut from %s]", had)
	}
	if len(note) > limit {
		return Cut(s, limit)
	}
	return Cut(s, limit-len(note)) + note
}

// cutNote is the note of Bound at the end of a text, and maxNote the most bytes that it has.
var cutNote = regexp.MustCompile(
	`\n\[cut (?:here: it had|from) ([0-9]+) bytes(?:, and [0-9]+ are kept at most)?\]$`)

const maxNote = 100

// Head returns the first characters of s, at most so many, and behind them how many it leaves out,
// if it does.
func Head(s string, most int) string { return head(s, most, 0) }

// Rehead is [Head] of a text that Head has cut before: the note says how many characters are left
// out of the text at first.
func Rehead(s string, most int) string {
	at := max(len(s)-maxNote, 0)
	m := headNote.FindStringSubmatchIndex(s[at:])
	if m == nil {
		return Head(s, most)
	}
	before, err := strconv.ParseInt(s[at+m[2]:at+m[3]], 10, 64)
	if kept := s[:at+m[0]]; err == nil && utf8.RuneCountInString(kept) > most {
		return head(kept, most, before)
	}
	return s
}

// head is Head of a text of which so many characters were left out before.
func head(s string, most int, before int64) string {
	if len(s) <= most {
		return s
	}
	n := 0
	for i := range s {
		if n == most {
			left := before + int64(utf8.RuneCountInString(s[i:]))
			return s[:i] + "\n…(truncated, " + Count(left, "character", "characters") + " left out)…"
		}
		n++
	}
	return s
}

// headNote is the note of Head at the end of a text.
var headNote = regexp.MustCompile(`\n…\(truncated, ([0-9]{1,18}) characters? left out\)…$`)

// Count returns a number and the noun for it: "1 turn", "2 turns".
func Count[N int | int64 | uint32](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.FormatInt(int64(n), 10) + " " + many
}

// MaxName is how many bytes a name in a configuration or a report has at most.
const MaxName = 256

// maxListed is how many items of a list the text of an error repeats.
const maxListed = 20

// List returns the texts of [Listed] with sep between them.
func List[T any](items []T, sep string, of func(T) string) string {
	return strings.Join(Listed(items, of), sep)
}

// Listed returns the texts of the first 20 items, and how many more there are: what is said of a
// list must not be much longer than the list.
func Listed[T any](items []T, of func(T) string) []string {
	texts := make([]string, 0, maxListed+1)
	for i, item := range items {
		if i == maxListed {
			texts = append(texts, fmt.Sprintf("and %d more", len(items)-i))
			break
		}
		texts = append(texts, of(item))
	}
	return texts
}

// NameFault says why s cannot be a name in a line of a prompt; empty: it can, or is empty.
func NameFault(s string) string {
	if s == "" || IsLine(s, MaxName) {
		return ""
	}
	return fmt.Sprintf("%s: want at most %d bytes on one line, without characters that are not drawn",
		Quote(s), MaxName)
}

// IDFault says why s cannot be the id of a person, since it would pass for another or is not kept
// as it is; empty: it can.
func IDFault(s string) string {
	switch {
	case !utf8.ValidString(s):
		return "it is not UTF-8: " + Quote(s)
	case Escape(s) != strings.TrimSpace(s):
		return "it has characters that are not drawn, or spaces at an end: " + Quote(s)
	}
	return ""
}

// MaxID is how many bytes ID returns at most, quotation marks included.
const MaxID = 200

// maxHead is how many bytes of an id stand before the SHA-256 of the whole.
const maxHead = 100

// An IDForm is the form in which a model is shown the ids of people wherever they are. The zero
// IDForm is that of [ID].
type IDForm struct {
	Hashed bool
	Secret []byte // of the hash; empty: it has none
}

// hashDigits is how many hexadecimal digits of a hash are shown.
const hashDigits = 12

// Show returns an id in its form, in quotation marks: the first 12 hexadecimal digits of its
// SHA-256, or of its HMAC-SHA-256 if there is a secret, if it is to be hashed.
func (f IDForm) Show(id string) string {
	if !f.Hashed {
		return ID(id)
	}
	h := sha256.New()
	if len(f.Secret) > 0 {
		h = hmac.New(sha256.New, f.Secret)
	}
	h.Write([]byte(id))
	return ID(hex.EncodeToString(h.Sum(nil))[:hashDigits])
}

// ID returns the id of a person in quotation marks, as a model is shown it wherever it is: two ids
// that are not the same never give the same text. Printable ASCII stands as it is, but for
// quotation marks, brackets, backslashes, and spaces that another space or an end is beside. Any
// other character is its escape, as in Go, and each byte that is not UTF-8 likewise. Of an id that
// is longer then, the text has the head and the SHA-256 of the whole.
func ID(id string) string {
	var b strings.Builder
	head := 0 // how much of b is of the head
	b.WriteByte('"')
	for i, r := range id {
		_, n := utf8.DecodeRuneInString(id[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, id[i])
		case standsInID(id, i):
			b.WriteByte(id[i])
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		if b.Len() <= maxHead {
			head = b.Len()
		}
		if b.Len() >= MaxID {
			return fmt.Sprintf(`%s… SHA-256 %x"`, b.String()[:head], sha256.Sum256([]byte(id)))
		}
	}
	return b.String() + `"`
}

// standsInID reports whether ID writes the byte i of an id as it is.
func standsInID(id string, i int) bool {
	switch c := id[i]; c {
	case '"', '\\', '`', '[', ']', '{', '}', '<', '>':
		return false
	case ' ':
		return i > 0 && i+1 < len(id) && id[i-1] != ' ' && id[i+1] != ' '
	default:
		return c > ' ' && c <= '~'
	}
}

// UnitFault returns what is doubtful about a duration that a configuration sets, or "" for nothing:
// one of less than a millisecond is most often a number without its unit.
func UnitFault(d time.Duration) string {
	if d <= 0 || d >= time.Millisecond {
		return ""
	}
	return fmt.Sprintf("it is %v: is a unit missing, as in %d * time.Second?", d, d)
}

// IsBlank reports whether a reader of s sees nothing: s has only spaces, controls, and characters
// that are not drawn.
func IsBlank(s string) bool {
	return strings.IndexFunc(s, isVisible) < 0
}

// Line makes s fit to stand in a line of its own, as a label does. It drops what is not drawn:
// controls, format and private characters, fillers, and bytes that are not UTF-8. It writes each
// run of spaces and line breaks as one space, and trims. A text that IsBlank becomes "".
func Line(s string) string {
	if isPlain(s) {
		return s
	}
	if IsBlank(s) {
		return ""
	}
	drawn := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !isVisible(r), unicode.Is(unicode.Co, r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	return strings.Join(strings.Fields(drawn), " ")
}

// isPlain reports whether s is printable ASCII without spaces that Line would take out.
func isPlain(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c < ' ' || c > '~' || c == ' ' && (i == 0 || i == len(s)-1 || s[i-1] == ' ') {
			return false
		}
	}
	return true
}

// IsQuotation reports whether a character passes for a quotation mark. The apostrophe does not.
func IsQuotation(r rune) bool {
	switch r {
	case '\'':
		return false
	case '`', '´', 'ʹ', 'ʺ', '˝', 'ˮ', 'ʼ', '˵', '˶', '״', '″', '‴', '⁗', '‶', '‷', '′', '‵', '〃':
		return true
	}
	return unicode.Is(unicode.Quotation_Mark, r)
}

// Shorten returns as much of a line as has at most so many characters. The last of one that was
// longer is "…".
func Shorten(line string, limit int) string {
	if len(line) <= limit {
		return line
	}
	if cut := []rune(line); len(cut) > limit {
		return strings.TrimSpace(string(cut[:limit-1])) + "…"
	}
	return line
}

// ShownLabel is how many characters of the label of a run are shown where it stands beside others:
// in lists, prompts and announcements.
const ShownLabel = 48

// Label returns a label as lists, prompts and announcements show it.
func Label(label string) string { return Shorten(label, ShownLabel) }

// IsLine reports whether s is a text that Line would not change, and has from 1 to limit bytes.
func IsLine(s string, limit int) bool { return s != "" && len(s) <= limit && Line(s) == s }

// IsUndrawn reports whether a reader sees nothing of a character that is neither a space nor a line
// break: a control, a joiner, a mark of direction, a filler, a selector, a tag, a private character
// or what is not a character. The tab, which is a space, and what ends a line are not.
func IsUndrawn(r rune) bool {
	switch {
	case r > ' ' && r < 0x7f, unicode.IsSpace(r):
		return false
	case r >= 0xfdd0 && r <= 0xfdef, r&0xfffe == 0xfffe, unicode.Is(unicode.Co, r):
		return true
	}
	return !isVisible(r)
}

func isVisible(r rune) bool {
	switch r {
	case '\u034f', '\u115f', '\u1160', '\u17b4', '\u17b5', '\u2800', '\u3164', '\uffa0':
		return false // fillers, which count as letters or symbols
	}
	return !unicode.IsSpace(r) && !unicode.IsControl(r) &&
		!unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Zs,
			unicode.Other_Default_Ignorable_Code_Point)
}
