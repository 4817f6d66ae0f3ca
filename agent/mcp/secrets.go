package mcp

import (
	"encoding/base64"
	"encoding/json"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"github.com/offshoot-sdk/offshoot/announce"
)

// plainHeaders are those that have no secret, and whose values are words of any text.
var plainHeaders = []string{
	"Accept", "Accept-Charset", "Accept-Encoding", "Accept-Language", "Cache-Control",
	"Content-Type", "Origin", "Referer", "User-Agent",
}

// secrets returns what masks the secrets of a server: what its Header has, but for plainHeaders,
// and of Env, the query of URL and the arguments of Command the values that look like one by their
// name or themselves, and parts of the path of URL that may be keys. The others, such as a
// language, are not masked.
func (s *Server) secrets() *announce.Redactor {
	r := &announce.Redactor{}
	for name, values := range s.Header {
		if slices.Contains(plainHeaders, textproto.CanonicalMIMEHeaderKey(name)) {
			continue
		}
		for _, v := range values {
			v = strings.TrimSpace(v)
			scheme, credential, _ := strings.Cut(v, " ")
			credential = strings.TrimSpace(credential)
			r.Learn(v, credential)
			if pair, err := base64.StdEncoding.DecodeString(credential); err == nil &&
				strings.EqualFold(scheme, "Basic") {
				_, password, _ := strings.Cut(string(pair), ":")
				r.Learn(string(pair), password)
			}
		}
	}
	learn := func(named, value string) {
		if announce.Redact(named) != named {
			r.Learn(value)
		}
	}
	for i, v := range slices.Concat(s.Env, s.Command) {
		if name, value, ok := strings.Cut(v, "="); ok {
			learn(strings.TrimLeft(name, "-")+"="+value, value)
			continue
		}
		learn(v, v)
		if at := i - len(s.Env); at > 1 && strings.HasPrefix(s.Command[at-1], "-") {
			learn(strings.TrimLeft(s.Command[at-1], "-")+"="+v, v) // as in "--token", "..."
		}
	}
	if u, err := url.Parse(s.URL); err == nil {
		for name, values := range u.Query() {
			for _, v := range values {
				if learn(name+"="+v, v); isKey(v) {
					r.Learn(v)
				}
			}
		}
		for segment := range strings.SplitSeq(u.Path, "/") {
			if isKey(segment) {
				r.Learn(segment)
			}
		}
	}
	return r
}

// isKey reports whether a part of an address may be a key: it has 16 characters or more, which are
// those of keys, and letters beside at least four digits.
func isKey(v string) bool {
	const least, leastDigits = 16, 4
	digits, letters := 0, 0
	for _, c := range v {
		switch {
		case c >= '0' && c <= '9':
			digits++
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
			letters++
		case c != '-' && c != '_' && c != '.' && c != '~':
			return false
		}
	}
	return len(v) >= least && digits >= leastDigits && letters > 0
}

// masked returns what a server says of itself and of its work, such as an error, without secrets:
// those of its own, and what looks like one.
func (s *Server) masked(text string) string { return s.redactor.Redact(text) }

// maskedOwn returns what a server has made, such as the text of a result, without its own secrets.
// What looks like another one may be what a model has asked for.
func (s *Server) maskedOwn(text string) string { return s.redactor.RedactOwn(text) }

// maskedSchema is maskedOwn of a schema. One that a mask has broken is that of any object.
func (s *Server) maskedSchema(schema json.RawMessage) json.RawMessage {
	shown := json.RawMessage(s.maskedOwn(string(schema)))
	if !json.Valid(shown) {
		return json.RawMessage(anyObject)
	}
	return shown
}
