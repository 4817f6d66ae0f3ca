package tree

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math"
	"reflect"
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

func (s *scanner) uint8() uint8 { return uint8(s.uint(math.MaxUint8)) }

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

// shared holds what many facts of one tree have in common, so that the tree keeps it once: keys,
// short texts, routes and grants. The zero value is empty. It is not safe for concurrent use.
type shared struct {
	keys  map[string]session.Key
	last  [2]session.Key // the last keys, the younger one first
	once  bool           // the keys to come are not kept: each occurs once, but for the last ones
	texts map[string]string
	route *session.Route // the last one
	grant *Grant         // the last one

	specs   slab[Spec]
	mores   slab[SpecMore]
	answers slab[Result]
}

// A slab makes values several at a time, because an allocation for each takes a good part of the
// time in which a tree with 200,000 runs is opened. The memory of those that were made together is
// free when none of them is in use. The zero value is ready.
type slab[T any] struct{ left []T }

// slabBytes is how much a slab allocates at a time, at most. The allocator has that size.
const slabBytes = 8192

// next returns a new zero value.
func (s *slab[T]) next() *T {
	if len(s.left) == 0 {
		s.left = make([]T, max(1, slabBytes/reflect.TypeFor[T]().Size()))
	}
	p := &s.left[0]
	s.left = s.left[1:]
	return p
}

// Bounds of shared.texts. A table that is full stays as it is: the words of a tree that are worth
// keeping come early.
const (
	maxWords     = 4096
	maxWordBytes = 128
)

// word returns b as a string, one for all that are equal.
func (w *shared) word(b []byte) string {
	if t, ok := w.texts[string(b)]; ok {
		return t
	}
	t := string(b)
	if w.texts == nil {
		w.texts = make(map[string]string)
	}
	if len(t) <= maxWordBytes && len(w.texts) < maxWords {
		w.texts[t] = t
	}
	return t
}

// key returns the key that b is the text of.
func (w *shared) key(b []byte) (session.Key, bool) {
	for _, k := range w.last {
		if k.String() == string(b) {
			return k, true
		}
	}
	k, ok := w.keys[string(b)]
	if !ok {
		if k.UnmarshalText(b) != nil {
			return session.Key{}, false
		}
		w.keep(k, string(b))
	}
	w.last = [2]session.Key{k, w.last[0]}
	return k, true
}

// keep keeps the key k, which was written as text.
func (w *shared) keep(k session.Key, text string) {
	if w.once {
		return
	}
	if w.keys == nil {
		w.keys = make(map[string]session.Key)
	}
	if text == k.String() {
		text = k.String() // one string in memory for both
	}
	w.keys[text] = k
}

// grantOf returns the last grant if it is equal to g, else a copy of g.
func (w *shared) grantOf(g *Grant) *Grant {
	if w.grant == nil || !w.grant.equal(g) {
		own := *g
		w.grant = &own
	}
	return w.grant
}

// routeOf returns the last route if it is equal to r, else a copy of r. No route is ever changed.
func (w *shared) routeOf(r session.Route) *session.Route {
	if w.route == nil || *w.route != r {
		own := new(session.Route)
		*own = r
		w.route = own
	}
	return w.route
}
