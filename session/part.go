package session

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode"

	"github.com/offshoot-sdk/offshoot/internal/text"
)

// A PartKind says what a [Part] is to its receiver. A PartKind that this version does not know is
// kept as it was read.
type PartKind string

// The kinds of parts that this version knows.
const (
	PartImage PartKind = "image" // a picture
	PartAudio PartKind = "audio" // a recording, such as a voice message
	PartVideo PartKind = "video" // moving pictures
	PartFile  PartKind = "file"  // anything else, such as a document
)

// A Part is something that a message has beside its text, such as a picture. Its bytes are a [File]
// of the Store, or stand behind a URL. It is passed by value.
type Part struct {
	Kind      PartKind
	MediaType string // as its sender calls it, such as "image/png"; it need not be true
	Name      string // the name of the file, for people; never a path
	File      File   // the bytes in the [Files] of the session's transcript; zero: see URL
	URL       string // an absolute http or https address, without user info; empty: see File

	// Data are the bytes on their way into the Store, whose File is then set in place of Data. A
	// Part of a transcript never has Data.
	Data []byte

	unknown string // as in Message
}

// maxMediaType and maxPartName bound what a Part says of its bytes, in bytes.
const (
	maxMediaType = 255
	maxPartName  = 255
)

// Validate returns an error that wraps [ErrInvalidPart] and names the field, if p is not what a
// transcript keeps: if it has both a File and a URL or neither of them, if it has Data, a MediaType
// that is not one, a Name that has a path or a drive or is not a line of text, a File whose hash is
// not a SHA-256 in lower-case hexadecimal, or a URL that is not an absolute http or https address
// or has user info or spaces.
func (p Part) Validate() error {
	if len(p.Data) > 0 {
		return p.invalid("Data", "the bytes are not in the Store")
	}
	return p.validate(p.File.IsZero())
}

// ValidateNew returns an error as Validate does, for a Part that its sender hands over: its bytes
// are exactly one of Data, File and URL.
func (p Part) ValidateNew() error {
	if len(p.Data) == 0 {
		return p.validate(p.File.IsZero())
	}
	if !p.File.IsZero() {
		return p.invalid("Data", "it has a File, too")
	}
	return p.validate(false)
}

// validate checks everything but Data. fileless says that p has bytes neither in a File nor in
// Data.
func (p Part) validate(fileless bool) error {
	switch {
	case p.Kind == "" || !text.IsLine(string(p.Kind), maxMediaType):
		return p.invalid("Kind", text.Quote(string(p.Kind))+" is not a kind, such as image or file")
	case p.MediaType != "" && !isMediaType(p.MediaType):
		return p.invalid("MediaType",
			text.Quote(p.MediaType)+" is not a media type, such as image/png")
	case p.Name != "" && !isPartName(p.Name):
		return p.invalid("Name", fmt.Sprintf(
			"%s is not the name of a file: want at most %d bytes on one line, without a path",
			text.Quote(p.Name), maxPartName))
	case fileless && p.URL == "":
		return p.invalid("File", "it has neither bytes nor a URL")
	case !fileless && p.URL != "":
		return p.invalid("URL", "it has bytes, too")
	case p.URL != "" && !isPartURL(p.URL):
		return p.invalid("URL", "it is not an absolute http or https address "+
			"without user info and spaces")
	case !p.File.IsZero():
		if reason := p.File.fault(); reason != "" {
			return p.invalid("File", reason)
		}
	}
	return nil
}

func (p Part) invalid(field, reason string) error {
	return &PartError{Field: field, Reason: reason}
}

// ValidateParts returns the error of the first of parts that valid refuses, with its index. The
// caller passes [Part.Validate] or [Part.ValidateNew].
func ValidateParts(parts []Part, valid func(Part) error) error {
	for i, p := range parts {
		err := valid(p)
		if bad, ok := errors.AsType[*PartError](err); ok {
			bad.Index = i
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isMediaType reports whether s has the form type/subtype, with or without parameters.
func isMediaType(s string) bool {
	kind, rest, ok := strings.Cut(s, "/")
	return ok && kind != "" && rest != "" && !strings.ContainsAny(kind, " ;=\"") &&
		text.IsLine(s, maxMediaType)
}

// isPartName reports whether s is the name of a file without a path.
func isPartName(s string) bool {
	return s != "." && s != ".." && !strings.ContainsAny(s, "/\\\x00") && !hasDrive(s) &&
		text.IsLine(s, maxPartName)
}

// hasDrive reports whether a name begins with a drive of Windows, which makes it a path there.
func hasDrive(s string) bool {
	return len(s) > 1 && s[1] == ':' && ('a' <= s[0]|0x20 && s[0]|0x20 <= 'z')
}

// maxPartURL is how long a URL is at most, in bytes.
const maxPartURL = 8192

// isPartURL reports whether s is an address that a model may be shown. Credentials would reach it.
func isPartURL(s string) bool {
	if !text.IsLine(s, maxPartURL) || strings.ContainsFunc(s, unicode.IsSpace) {
		return false
	}
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" &&
		u.User == nil
}

// A PartError says which field of a Part is not what a transcript keeps. It is [ErrInvalidPart] and
// [ErrInvalidLine].
type PartError struct {
	Index  int    // of the Part in its message
	Field  string // such as "Name"
	Reason string
}

// Error names the part, the field and the reason.
func (e *PartError) Error() string {
	return fmt.Sprintf("session: Parts[%d].%s: %s", e.Index, e.Field, e.Reason)
}

// Is reports whether target is [ErrInvalidPart] or [ErrInvalidLine].
func (e *PartError) Is(target error) bool {
	return target == ErrInvalidPart || target == ErrInvalidLine
}

// A wirePart is the form of a part for encoding/json to decode into.
type wirePart struct {
	Kind      PartKind `json:"kind"`
	MediaType string   `json:"mediaType"`
	Name      string   `json:"name"`
	File      File     `json:"file"`
	URL       string   `json:"url"`
}

var partMembers = []string{"kind", "mediaType", "name", "file", "url"}

// MarshalJSON encodes p on one line, without Data.
func (p Part) MarshalJSON() ([]byte, error) { return p.append(nil), nil }

func (p Part) append(b []byte) []byte {
	o := object{b: append(b, '{')}
	o.text("kind", string(p.Kind))
	o.text("mediaType", p.MediaType)
	o.text("name", p.Name)
	o.file("file", p.File)
	o.text("url", p.URL)
	return o.end(p.unknown)
}

// UnmarshalJSON sets p to the part in data.
func (p *Part) UnmarshalJSON(data []byte) error {
	var w wirePart
	unknown, err := readObject(data, &w, partMembers)
	if err != nil {
		return fmt.Errorf("session: part: %w", err)
	}
	*p = Part{
		Kind: w.Kind, MediaType: w.MediaType, Name: w.Name, File: w.File, URL: w.URL,
		unknown: unknown,
	}
	return nil
}

// A Sender is the person who says something in a chat of several. The zero Sender is not known.
type Sender struct {
	ID   string `json:"id,omitempty"`   // as the channel spells it
	Name string `json:"name,omitempty"` // as people see it; anyone may choose any
}

// IsZero reports whether s is not known.
func (s Sender) IsZero() bool { return s == Sender{} }
