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
		m.value(m.next(), false)
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
func (m *jsonMasker) value(token json.Token, isSecret bool) {
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
		m.text(v, isSecret)
	case json.Number:
		if isSecret {
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
		m.text(name, false)
		m.out = append(m.out, ':')
		m.value(m.next(), isSecretMember(m.clean(name)))
	}
}

// elements writes what stands between the brackets of an array.
func (m *jsonMasker) elements() {
	isSecret, inKey := false, false
	for first := true; m.dec.More(); first = false {
		if !first {
			m.out = append(m.out, ',')
		}
		token := m.next()
		m.value(token, isSecret || inKey)
		text, _ := token.(string)
		isSecret = isSecretFlag(m.clean(text))
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
func (m *jsonMasker) text(given string, isSecret bool) {
	s := m.clean(given)
	safe, masked := s, false
	switch {
	case isSecret && (s == "" || isReference(s)):
	case isSecret:
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

// isSecretMember reports whether the last word in the name of a member says that the member is
// secret.
func isSecretMember(name string) bool {
	name = strings.TrimRight(name, " \t\n:=?.")
	start := len(name)
	for start > 0 && (isNameByte[name[start-1]] || name[start-1] == '-') {
		start--
	}
	word := name[start:]
	return word != "" && (isHeader(word) || isSecretName(word))
}

// isSecretFlag reports whether an argument is a flag whose value is secret and stands in the next
// argument.
func isSecretFlag(arg string) bool {
	name := strings.TrimLeft(arg, "-")
	return name != arg && name != "" && isName(name) && isSecretName(name)
}
