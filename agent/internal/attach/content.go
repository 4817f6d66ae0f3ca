package attach

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"strings"

	"github.com/offshoot-sdk/offshoot/internal/sat"
)

// A Limits bounds the files of one spawn.
type Limits struct{ Files, FileBytes, TotalBytes int }

// A SizeError is a file, or all of them, that are over a limit.
type SizeError struct {
	Index int    // of the file; -1: all of them
	Name  string // of the limit: "MaxFiles", "MaxFileBytes", "MaxTotalBytes"
	Size  int    // 0: more than Limit, and how much is not known
	Limit int
}

func (e *SizeError) Error() string {
	if e.Size == 0 {
		return fmt.Sprintf("agent: attachments: more than %s, which is %d", e.Name, e.Limit)
	}
	return fmt.Sprintf("agent: attachments: %d is over %s, which is %d", e.Size, e.Name, e.Limit)
}

// CheckCount returns a *SizeError for more files than may be.
func (l Limits) CheckCount(n int) error {
	if n > l.Files {
		return &SizeError{-1, "MaxFiles", n, l.Files}
	}
	return nil
}

// CheckRead returns a *SizeError for a file of which so much was read, behind so many bytes of
// others. The file may have more.
func (l Limits) CheckRead(index, read, before int) error {
	switch {
	case read > l.FileBytes:
		return &SizeError{index, "MaxFileBytes", 0, l.FileBytes}
	case read > l.TotalBytes-before:
		return &SizeError{-1, "MaxTotalBytes", 0, l.TotalBytes}
	}
	return nil
}

// Unknown is the size of a file that says it only at its end.
const Unknown = -1

// CheckSizes returns a *SizeError for files of which some, or all of them, are too large.
func (l Limits) CheckSizes(sizes []int) error {
	total, all := 0, true
	for i, size := range sizes {
		if size > l.FileBytes {
			return &SizeError{i, "MaxFileBytes", size, l.FileBytes}
		}
		all = all && size != Unknown
		total = sat.Add(total, max(size, 0))
	}
	if total <= l.TotalBytes {
		return nil
	}
	if !all {
		total = 0
	}
	return &SizeError{-1, "MaxTotalBytes", total, l.TotalBytes}
}

// SizeOf returns how many bytes a reader has, or Unknown.
func SizeOf(r io.Reader) int {
	switch r := r.(type) {
	case *bytes.Reader:
		if r != nil {
			return r.Len()
		}
	case *bytes.Buffer:
		if r != nil {
			return r.Len()
		}
	case *strings.Reader:
		if r != nil {
			return r.Len()
		}
	}
	return Unknown
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
