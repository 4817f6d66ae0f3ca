package secret

import (
	"bytes"
	"encoding/json"
	"strings"
)

// MaskJSON masks the credentials in a JSON text, such as the arguments of a tool call. Each string,
// and each name, is masked as the text that it stands for, by [Mask]. A member whose name says that
// it is secret has its whole value masked, and so has the element behind a flag such as
// "--password". A string that holds an object or an array as JSON is treated in the same way. A
// text that is not JSON is masked as a text.
//
// Before that, clean is applied to each string and name. Numbers, the order of members, and members
// of the same name stay. A text in which nothing changes is returned as it is. MaskJSON reports
// whether it masked something.
func MaskJSON(src string, clean func(string) string) (out string, masked bool) {
	m := jsonMasker{dec: json.NewDecoder(strings.NewReader(src)), clean: clean}
	m.dec.UseNumber()
	ok := json.Valid([]byte(src)) // which bounds the depth, too
	if ok {
		m.value(m.next(), member{})
	}
	switch {
	case !ok || m.err != nil:
		s := clean(src)
		out = Mask(s)
		return out, out != s
	case !m.changed:
		return src, false
	}
	return string(m.out), m.masked
}

// A jsonMasker writes a JSON text anew.
type jsonMasker struct {
	dec             *json.Decoder
	clean           func(string) string
	out             []byte
	changed, masked bool
	err             error
}

// next returns the next token, which is nil for null and after an error.
func (m *jsonMasker) next() (token json.Token) {
	if m.err == nil {
		token, m.err = m.dec.Token()
	}
	return token
}

// value writes the value that begins with a token.
func (m *jsonMasker) value(token json.Token, of member) {
	isSecret := of.is > weakName
	switch v := token.(type) {
	case json.Delim:
		if isSecret {
			m.skip()
			m.mask("***")
			return
		}
		m.out = append(m.out, byte(v))
		if v == '{' {
			m.members()
		} else {
			m.elements()
		}
		m.next()
		const closing = ']' - '[' // and '}' - '{'
		m.out = append(m.out, byte(v)+closing)
	case string:
		m.text(v, of)
	case json.Number:
		if isSecret && of.is != listName && (of.is == passwordTag || !isCount(v.String())) {
			m.mask("***")
			return
		}
		m.out = append(m.out, v...)
	case bool:
		m.write(v)
	default:
		m.write(nil)
	}
}

// members writes what stands between the braces of an object.
func (m *jsonMasker) members() {
	for first := true; m.dec.More(); first = false {
		if !first {
			m.out = append(m.out, ',')
		}
		name, _ := m.next().(string)
		m.text(name, member{})
		m.out = append(m.out, ':')
		m.value(m.next(), memberOf(m.clean(name)))
	}
}

// elements writes what stands between the brackets of an array.
func (m *jsonMasker) elements() {
	after, inKey := member{}, false
	for first := true; m.dec.More(); first = false {
		if !first {
			m.out = append(m.out, ',')
		}
		token := m.next()
		switch {
		case inKey:
			m.value(token, member{is: passwordTag, whole: true})
		default:
			m.value(token, after)
		}
		text, _ := token.(string)
		after = flagOf(m.clean(text))
		inKey = (inKey || beginsPrivateKey(text)) && !strings.Contains(text, "-----END ")
	}
}

// beginsPrivateKey reports whether a line begins a private key, whose other lines follow in an
// array.
func beginsPrivateKey(line string) bool {
	_, after, ok := strings.Cut(line, "-----BEGIN ")
	return ok && strings.Contains(after, "PRIVATE KEY-----")
}

// skip passes over the rest of an object or array whose first token was read.
func (m *jsonMasker) skip() {
	for depth := 1; depth > 0 && m.err == nil; {
		if delim, ok := m.next().(json.Delim); ok {
			if delim == '{' || delim == '[' {
				depth++
			} else {
				depth--
			}
		}
	}
}

// text writes a string.
func (m *jsonMasker) text(given string, of member) {
	s := m.clean(given)
	var safe string
	var masked bool
	switch {
	case of.hides(s):
		safe = maskOf(s)
		masked = safe != s
	case isDocument(s):
		safe, masked = MaskJSON(s, m.clean)
	default:
		safe = Mask(s)
		masked = safe != s
	}
	m.changed = m.changed || safe != given
	m.masked = m.masked || masked
	m.write(safe)
}

// mask writes a mask in the place of a value other than a string.
func (m *jsonMasker) mask(mask string) {
	m.changed, m.masked = true, true
	m.write(mask)
}

// write writes a string, a bool or nil.
func (m *jsonMasker) write(v any) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // people read it
	if err := e.Encode(v); err != nil && m.err == nil {
		m.err = err
	}
	m.out = append(m.out, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
}

// isDocument reports whether a string is an object or an array as JSON.
func isDocument(s string) bool {
	s = strings.TrimLeft(s, " \t\r\n")
	return s != "" && (s[0] == '{' || s[0] == '[') && json.Valid([]byte(s))
}

// A member is what is known of a value by what stands before it.
type member struct {
	name  string // the last word of its name
	is    strength
	whole bool // the value is secret, whatever it looks like
}

// hides reports whether a string is to be masked as a whole.
func (m member) hides(s string) bool {
	if m.whole {
		return s != ""
	}
	f := form{name: m.name, is: m.is, op: opColon, quoted: true}
	return m.is != noSecret && f.isSecret(s)
}

// memberOf returns what the last word in the name of a member says of its value.
func memberOf(name string) member {
	name = strings.TrimRight(name, " \t\n:=?.")
	start := len(name)
	for start > 0 && isWordByte[name[start-1]] {
		start--
	}
	w := name[start:]
	if isHeader(w) {
		return member{name: w, is: passwordTag}
	}
	return member{name: w, is: strengthOf(w, name[:start])}
}

// flagOf returns what an argument says of the next one: a flag may say that it is secret.
func flagOf(arg string) member {
	name := strings.TrimLeft(arg, "-")
	if name == arg || name == "" || !isName(name) {
		return member{}
	}
	return memberOf(name)
}
