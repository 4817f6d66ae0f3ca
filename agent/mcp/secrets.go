package mcp

import (
	"strings"

	"github.com/offshoot-sdk/offshoot/announce"
)

// secrets returns what masks the secrets of a server: what its Header has, and the values of Env
// that look like one by their name or themselves. The others, such as a language, are not masked.
func (s *Server) secrets() *announce.Redactor {
	r := &announce.Redactor{}
	for _, values := range s.Header {
		for _, v := range values {
			r.Learn(strings.TrimSpace(v))
			_, credential, _ := strings.Cut(v, " ") // behind the scheme, such as Bearer
			r.Learn(strings.TrimSpace(credential))
		}
	}
	for _, v := range s.Env {
		if _, value, _ := strings.Cut(v, "="); announce.Redact(v) != v {
			r.Learn(value)
		}
	}
	return r
}

// masked returns a text of a server without secrets.
func (s *Server) masked(text string) string { return s.redactor.Redact(text) }
