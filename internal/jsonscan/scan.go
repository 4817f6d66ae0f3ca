package jsonscan

import (
	"iter"
	"strings"
)

// Values returns the objects and lists in a text that begin with one of the opening characters, in
// their order: what encoding/json would decode there. Those within another are not returned. It
// takes time linear in the text, whatever stands there, and the memory of an int for each byte.
func Values(s, opening string) iter.Seq[string] {
	return func(yield func(string) bool) {
		x := scanner{s: s}
		for at := 0; at < len(s); {
			i := strings.IndexAny(s[at:], opening)
			if i < 0 {
				return
			}
			at += i
			end := x.endOf(at)
			if end == failed {
				at++
				continue
			}
			if !yield(s[at:end]) {
				return
			}
			at = end
		}
	}
}

// failed is in the place of the end of what is not a value.
const failed = -1

// A scanner scans values from several places of a text. A scan from a place within another one goes
// as that one does, unless that sees a string there: then each quotation mark tells the two apart.
// So what is known of each place where a container begins bounds the work to two scans of the text.
type scanner struct {
	s    string
	ends []int // by the place where a container begins: where it ends, failed, or 0 if not known
	open []int // where the containers begin that are open
}

// A state is what may stand at a place of a value.
type state int

const (
	firstMember  state = iota // or the end of the object
	nextMember                // after a comma
	firstElement              // or the end of the list
	nextValue                 // after a comma or a colon
	afterValue                // a comma, or the end of the container
)

// endOf returns where the container ends that begins at a place.
func (x *scanner) endOf(at int) int {
	if x.ends == nil {
		x.ends = make([]int, len(x.s))
	}
	if x.ends[at] == 0 {
		x.scan(at)
	}
	return x.ends[at]
}

// scan finds where the container ends that begins at a place, and those in it.
func (x *scanner) scan(at int) {
	x.open = x.open[:0]
	i, now := x.enter(at)
	for i != failed && len(x.open) > 0 {
		if i = x.blanks(i); i == len(x.s) {
			break
		}
		switch c := x.s[i]; {
		case c == '}' && (now == firstMember || now == afterValue && x.inside('{')),
			c == ']' && (now == firstElement || now == afterValue && x.inside('[')):
			last := len(x.open) - 1
			i++
			x.ends[x.open[last]] = i
			x.open, now = x.open[:last], afterValue
		case now == firstMember, now == nextMember:
			i, now = x.name(i), nextValue
		case now == afterValue && c == ',' && x.inside('{'):
			i, now = i+1, nextMember
		case now == afterValue && c == ',':
			i, now = i+1, nextValue
		case now == afterValue:
			i = failed
		case c != '{' && c != '[':
			i, now = x.scalar(i), afterValue
		case x.ends[i] != 0:
			i, now = x.ends[i], afterValue
		default:
			i, now = x.enter(i)
		}
	}
	for _, start := range x.open {
		x.ends[start] = failed
	}
}

// enter opens the container that begins at a place.
func (x *scanner) enter(at int) (next int, now state) {
	x.open = append(x.open, at)
	if x.s[at] == '{' {
		return at + 1, firstMember
	}
	return at + 1, firstElement
}

// inside reports whether the innermost container is of a kind.
func (x *scanner) inside(kind byte) bool { return x.s[x.open[len(x.open)-1]] == kind }

// blanks returns the first place from i on that is not a blank.
func (x *scanner) blanks(i int) int {
	for i < len(x.s) && strings.IndexByte(" \t\r\n", x.s[i]) >= 0 {
		i++
	}
	return i
}

// name returns where the name of a member ends, with its colon.
func (x *scanner) name(i int) int {
	if x.s[i] != '"' {
		return failed
	}
	if i = x.text(i); i == failed {
		return failed
	}
	if i = x.blanks(i); i == len(x.s) || x.s[i] != ':' {
		return failed
	}
	return i + 1
}

// scalar returns where a value ends that is not a container.
func (x *scanner) scalar(i int) int {
	if x.s[i] == '"' {
		return x.text(i)
	}
	for _, word := range []string{"true", "false", "null"} {
		if strings.HasPrefix(x.s[i:], word) {
			return i + len(word)
		}
	}
	return x.number(i)
}

// text returns where a string ends.
func (x *scanner) text(i int) int {
	for i++; i < len(x.s); i++ {
		switch c := x.s[i]; {
		case c == '"':
			return i + 1
		case c < ' ':
			return failed
		case c == '\\':
			i++
			if i == len(x.s) || strings.IndexByte(`"\/bfnrtu`, x.s[i]) < 0 {
				return failed
			}
			if x.s[i] == 'u' {
				if len(x.s)-i <= 4 || strings.Trim(x.s[i+1:i+5], "0123456789abcdefABCDEF") != "" {
					return failed
				}
				i += 4
			}
		}
	}
	return failed
}

// number returns where a number ends.
func (x *scanner) number(i int) int {
	if x.s[i] == '-' {
		i++
	}
	whole := x.digits(i)
	if whole == i || whole > i+1 && x.s[i] == '0' {
		return failed
	}
	i = whole
	if i < len(x.s) && x.s[i] == '.' {
		end := x.digits(i + 1)
		if end == i+1 {
			return failed
		}
		i = end
	}
	if i < len(x.s) && (x.s[i] == 'e' || x.s[i] == 'E') {
		i++
		if i < len(x.s) && (x.s[i] == '+' || x.s[i] == '-') {
			i++
		}
		end := x.digits(i)
		if end == i {
			return failed
		}
		i = end
	}
	return i
}

// digits returns the first place from i on that is not a digit.
func (x *scanner) digits(i int) int {
	for i < len(x.s) && x.s[i] >= '0' && x.s[i] <= '9' {
		i++
	}
	return i
}
