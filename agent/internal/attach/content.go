package attach

import (
	"encoding/base64"
	"fmt"
	"strings"
)

// A Limits bounds the files of one spawn.
type Limits struct{ Files, FileBytes, TotalBytes int }

// A SizeError is a file, or all of them, that are over a limit.
type SizeError struct {
	Index int    // of the file; -1: all of them
	Name  string // of the limit: "MaxFiles", "MaxFileBytes", "MaxTotalBytes"
	Size  int    // at least so much
	Limit int
}

func (e *SizeError) Error() string {
	return fmt.Sprintf("agent: attachments: %d is over %s, which is %d", e.Size, e.Name, e.Limit)
}

// CheckCount returns a *SizeError for more files than may be.
func (l Limits) CheckCount(n int) error {
	if n > l.Files {
		return &SizeError{-1, "MaxFiles", n, l.Files}
	}
	return nil
}

// CheckSize returns a *SizeError for a file of a size, behind so many bytes of others.
func (l Limits) CheckSize(index, size, before int) error {
	switch {
	case size > l.FileBytes:
		return &SizeError{index, "MaxFileBytes", size, l.FileBytes}
	case size > l.TotalBytes-before:
		return &SizeError{-1, "MaxTotalBytes", before + size, l.TotalBytes}
	}
	return nil
}

// A ContentError is a content that is not what its encoding says.
type ContentError struct{ Reason string }

func (e *ContentError) Error() string { return "agent: attachment: the content " + e.Reason }

// Decode returns the bytes of the content of a file in an encoding: "utf8", which is also "", or
// "base64" in the standard alphabet, with its padding, and with white space anywhere. An empty
// base64 is refused, since a model that has lost the content gives that; an empty file is utf8. So
// is a marker of this package, which stands in the conversation where a content was. The error is a
// *ContentError.
func Decode(content, encoding string) ([]byte, error) {
	if isMarker(content) {
		return nil, &ContentError{"is not kept in the conversation; give it once more"}
	}
	switch encoding {
	case "", "utf8", "utf-8":
		return []byte(content), nil
	case "base64":
	default:
		return nil, &ContentError{fmt.Sprintf("has an encoding that is not one of %q",
			[]string{"utf8", "base64"})}
	}
	packed := strings.Map(func(r rune) rune {
		if strings.ContainsRune(" \t\r\n", r) {
			return -1
		}
		return r
	}, content)
	data, err := base64.StdEncoding.Strict().DecodeString(packed)
	switch {
	case packed == "":
		return nil, &ContentError{"is an empty base64; an empty file is given as utf8"}
	case err != nil:
		return nil, &ContentError{"is not base64 in the standard alphabet with its padding"}
	}
	return data, nil
}
