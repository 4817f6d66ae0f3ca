package tree

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/offshoot-sdk/offshoot/session"
)

// A scanner reads the JSON that this package writes: without white space, with the names of members
// as they are written. It fails for everything else, which [DecodeFact] then decodes by reflection.
// So what it accepts must mean the same to encoding/json, and it need not accept all that means
// something.
//
// Begin and more walk over the members of an object:
//
//	for name := s.begin(); name != nil; name = s.more() {
//
// The other methods read one value. After a failure they return zero values.
type scanner struct {
	data   []byte
	pos    int
	failed bool
	shared *shared
	apart  func([]func()) // see Decoder
	parts  int
}

func (s *scanner) fail() { s.failed = true }

// next reports whether the next byte is c, and goes past it if so.
func (s *scanner) next(c byte) bool {
	if s.failed || s.pos >= len(s.data) || s.data[s.pos] != c {
		return false
	}
	s.pos++
	return true
}

// need fails unless the next byte is c.
func (s *scanner) need(c byte) {
	if !s.next(c) {
		s.fail()
	}
}

// begin goes into an object. It returns the name of the first member, or nil if there is none.
func (s *scanner) begin() []byte {
	s.need('{')
	if s.next('}') {
		return nil
	}
	return s.name()
}

// more returns the name of the next member of an object, or nil after the last one.
func (s *scanner) more() []byte {
	if s.next(',') {
		return s.name()
	}
	s.need('}')
	return nil
}

// name reads the name of a member with its colon. A name is never empty.
func (s *scanner) name() []byte {
	name, plain := s.quoted()
	s.need(':')
	if s.failed || !plain || len(name) == 0 {
		s.fail()
		return nil
	}
	return name
}

// first goes into a list and reports whether it has an element.
func (s *scanner) first() bool {
	s.need('[')
	return !s.next(']') && !s.failed
}

// another reports whether a list has another element.
func (s *scanner) another() bool {
	if s.next(',') {
		return true
	}
	s.need(']')
	return false
}

// quoted reads a string and returns what is between its quotation marks. It is plain if that is the
// string itself.
func (s *scanner) quoted() (inner []byte, plain bool) {
	s.need('"')
	plain = true
	ascii := true
	for i := s.pos; i < len(s.data) && !s.failed; i++ {
		c := s.data[i]
		if isSelf[c] {
			continue
		}
		switch {
		case c == '"':
			inner = s.data[s.pos:i]
			s.pos = i + 1
			if !ascii && !utf8.Valid(inner) {
				s.fail()
			}
			return inner, plain
		case c == '\\':
			plain = false
			i++
		case c < ' ':
			s.fail()
		default:
			ascii = false
		}
	}
	s.fail()
	return nil, false
}

// isSelf holds which bytes of a string stand for themselves, whatever is around them.
var isSelf = func() (table [256]bool) {
	for c := byte(' '); c < utf8.RuneSelf; c++ {
		table[c] = c != '"' && c != '\\'
	}
	return table
}()

// bytes reads a string as bytes, which are valid as long as the data.
func (s *scanner) bytes() []byte {
	start := s.pos
	inner, plain := s.quoted()
	if s.failed || plain {
		return inner
	}
	var text string
	if json.Unmarshal(s.data[start:s.pos], &text) != nil {
		s.fail()
	}
	return []byte(text)
}

func (s *scanner) string() string { return string(s.bytes()) }

// word reads a string of which there are few, and returns one string for all that are equal.
func (s *scanner) word() string { return s.shared.word(s.bytes()) }

// text reads a [Text].
func (s *scanner) text() Text {
	if s.pos >= len(s.data) || s.data[s.pos] != '{' {
		return Text(s.string())
	}
	var t Text
	for name := s.begin(); name != nil; name = s.more() {
		if string(name) != "base64" {
			s.fail()
		}
		t = Text(s.base64())
	}
	return t
}

// sharedText reads a text of which there may be many that are equal.
func (s *scanner) sharedText() Text {
	if s.pos < len(s.data) && s.data[s.pos] == '{' {
		return s.text()
	}
	return Text(s.word())
}

func (s *scanner) base64() []byte {
	encoded := s.bytes()
	b := make([]byte, base64.StdEncoding.DecodedLen(len(encoded)))
	n, err := base64.StdEncoding.Decode(b, encoded)
	if err != nil {
		s.fail()
		return nil
	}
	return b[:n]
}

// literal reports whether the next value is a word such as null, and goes past it if so.
func (s *scanner) literal(word string) bool {
	if s.failed || !bytes.HasPrefix(s.data[s.pos:], []byte(word)) {
		return false
	}
	s.pos += len(word)
	return true
}

func (s *scanner) bool() bool {
	if s.literal("true") {
		return true
	}
	if !s.literal("false") {
		s.fail()
	}
	return false
}

// uint reads a whole number from 0 to limit.
func (s *scanner) uint(limit uint64) (n uint64) {
	start := s.pos
	for s.pos < len(s.data) {
		c := s.data[s.pos] - '0'
		if c > 9 {
			break
		}
		if n > (math.MaxUint64-uint64(c))/10 {
			s.fail()
			return 0
		}
		n = n*10 + uint64(c)
		s.pos++
	}
	digits := s.pos - start
	if digits == 0 || digits > 1 && s.data[start] == '0' || n > limit || s.isFraction() {
		s.fail()
		return 0
	}
	return n
}

// isFraction reports whether the number goes on behind its digits.
func (s *scanner) isFraction() bool {
	if s.pos >= len(s.data) {
		return false
	}
	switch s.data[s.pos] {
	case '.', 'e', 'E':
		return true
	}
	return false
}

func (s *scanner) uint8() uint8   { return uint8(s.uint(math.MaxUint8)) }
func (s *scanner) uint16() uint16 { return uint16(s.uint(math.MaxUint16)) }
func (s *scanner) uint32() uint32 { return uint32(s.uint(math.MaxUint32)) }
func (s *scanner) uint64() uint64 { return s.uint(math.MaxUint64) }

func (s *scanner) int64() int64 {
	if s.next('-') {
		return -int64(s.uint(math.MaxInt64))
	}
	return int64(s.uint(math.MaxInt64))
}

func (s *scanner) int() int {
	n := s.int64()
	if int64(int(n)) != n {
		s.fail()
	}
	return int(n)
}

func (s *scanner) float() float64 {
	start := s.pos
	for s.pos < len(s.data) {
		c := s.data[s.pos]
		if c != '-' && c != '+' && c != '.' && c != 'e' && c != 'E' && (c < '0' || c > '9') {
			break
		}
		s.pos++
	}
	number := s.data[start:s.pos]
	f, err := strconv.ParseFloat(string(number), 64)
	if err != nil || !json.Valid(number) {
		s.fail()
	}
	return f
}

// key reads a session key.
func (s *scanner) key() session.Key {
	k, ok := s.shared.key(s.bytes())
	if !ok {
		s.fail()
	}
	return k
}
