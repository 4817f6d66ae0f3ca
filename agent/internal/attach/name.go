package attach

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/internal/text"
)

// ManifestName is the name of the list that stands beside the files. It is written last.
const ManifestName = ".manifest.json"

// maxName is how many bytes a name has at most: that of common file systems.
const maxName = 255

// A NameError is a name that a file cannot have.
type NameError struct {
	Index  int // of the file
	Name   string
	Reason string
}

func (e *NameError) Error() string {
	return fmt.Sprintf("agent: attachment %d: the name %s %s", e.Index+1, text.QuoteWhole(e.Name),
		e.Reason)
}

// CheckNames returns the first name that cannot be, as a *NameError, or nil. Names that are to
// become files of a work directory are also those of different files on every system, whatever
// that makes of letter case and of composed characters.
func CheckNames(names []string, onDisk bool) error {
	for i, name := range names {
		reason := nameFault(name)
		if reason == "" && onDisk {
			reason = diskFault(name)
		}
		for _, other := range names[:i] {
			switch {
			case reason != "":
			case other == name:
				reason = "is there twice"
			case onDisk && mayCollide(other, name):
				reason = fmt.Sprintf("is that of the same file as %s on some systems",
					text.QuoteWhole(other))
			}
		}
		if reason != "" {
			return &NameError{i, name, reason}
		}
	}
	return nil
}

// nameFault returns why a file cannot have a name anywhere, or "".
func nameFault(name string) string {
	switch {
	case name == "":
		return "is empty"
	case len(name) > maxName:
		return fmt.Sprintf("has %d bytes, the limit is %d", len(name), maxName)
	case strings.ContainsAny(name, `/\`):
		return "has a slash or a backslash: want the name of a file, and not a path"
	case name == "." || name == "..":
		return "is that of a directory"
	case strings.EqualFold(name, ManifestName):
		return "is that of the list of the files"
	case !utf8.ValidString(name) || !text.IsLine(name, maxName):
		return "is not a text on one line of characters that can be seen"
	}
	return ""
}

// diskFault returns why a file cannot have a name on some system, or "".
func diskFault(name string) string {
	if strings.ContainsAny(name, `<>:"|?*`) {
		return `has one of <>:"|?*, which Windows does not allow`
	}
	if strings.HasSuffix(name, ".") {
		return "ends with a dot, which Windows leaves out"
	}
	base, _, _ := strings.Cut(name, ".")
	base = strings.ToUpper(strings.TrimRight(base, " "))
	switch base {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$":
		return "is that of a device on Windows"
	}
	for _, port := range []string{"COM", "LPT"} {
		n, ok := strings.CutPrefix(base, port)
		if ok && utf8.RuneCountInString(n) == 1 && strings.ContainsAny(n, "0123456789¹²³") {
			return "is that of a device on Windows"
		}
	}
	return ""
}

// mayCollide reports whether a file system may take two names for one: they differ by letter case
// alone, or one is the other with its characters composed or taken apart. What may be so counts as
// so: the standard library has no table of compositions.
func mayCollide(a, b string) bool {
	if strings.EqualFold(a, b) {
		return true
	}
	return utf8.RuneCountInString(a) != utf8.RuneCountInString(b) && skeleton(a) == skeleton(b)
}

// skeleton returns a name in which each character that may be composed of others, or is a sequence
// of such, is a placeholder. It knows the scripts in which that is common: in others, the disk is
// the one that finds it.
func skeleton(name string) string {
	const composed = '\uFFFD'
	var out []rune
	for _, r := range foldCase(name) {
		switch {
		case isCombining(r) && len(out) > 0:
			out[len(out)-1] = composed
		case r > unicode.MaxASCII && unicode.In(r, unicode.Latin, unicode.Greek, unicode.Cyrillic,
			unicode.Hiragana, unicode.Katakana, unicode.Hangul):
			out = append(out, composed)
		default:
			out = append(out, r)
		}
	}
	return string(out)
}

// isCombining reports whether r is written into the character before it: an accent, a mark of kana,
// or a part of a Korean syllable that does not begin it.
func isCombining(r rune) bool {
	return 0x0300 <= r && r <= 0x036F || r == 0x3099 || r == 0x309A || 0x1160 <= r && r <= 0x11FF
}

// foldCase returns a text in which letters that differ by case alone are the same.
func foldCase(s string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for x := unicode.SimpleFold(r); x != r; x = unicode.SimpleFold(x) {
			least = min(least, x)
		}
		return least
	}, s)
}

// CheckHint returns why a text cannot be a hint at a place where the requester has the files in
// mind, or "". Nothing is mounted there.
func CheckHint(hint string) string {
	const most = 256
	if len(hint) > most {
		return fmt.Sprintf("has %d bytes, the limit is %d", len(hint), most)
	}
	for _, c := range []byte(hint) {
		if c >= utf8.RuneSelf || !strings.ContainsRune("._-/:", rune(c)) &&
			!unicode.IsLetter(rune(c)) && !unicode.IsDigit(rune(c)) {
			return "is not a path of letters, digits and ._-/:"
		}
	}
	for part := range strings.SplitSeq(hint, "/") {
		if part == ".." {
			return "leads up"
		}
	}
	return ""
}
