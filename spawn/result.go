package spawn

import (
	"encoding/json"

	"github.com/offshoot-sdk/offshoot/session"
)

// A Result is what a turn or a run produced. The zero Result is an empty one.
type Result struct {
	// Text is the final answer, byte for byte as the Runner returned it.
	Text string `json:"text,omitempty"`
	// JSON is a typed result, where one was asked for.
	JSON json.RawMessage `json:"json,omitempty"`
	// Files are artifacts, by reference.
	Files []File `json:"files,omitempty"`
	// Usage is what was consumed: of one turn in a Runner's Result, of all turns in a run's.
	Usage session.Usage `json:"usage,omitzero"`
	// Model is the one that really ran; empty if the Runner did not say.
	Model string `json:"model,omitempty"`
}

// A File is something that a run made.
type File struct {
	Name      string `json:"name"`
	Path      string `json:"path,omitempty"`
	MediaType string `json:"mediaType,omitempty"`
}
