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
	// Files are what was made, by reference.
	Files []File `json:"files,omitempty"`
	// Usage is what was consumed: in the Result that a Runner returns by that turn, in the Result
	// of a RunInfo by all turns of the run whose end is recorded. What a turn had spent that a
	// crash interrupted, or that was given up, is not in it; budgets are charged for all that such
	// a turn had reserved.
	Usage session.Usage `json:"usage,omitzero"`
	// Model is the model that the Runner called; empty if the Runner does not say.
	Model string `json:"model,omitempty"`
}

// A File is a reference to something that a run made.
type File struct {
	Name      string `json:"name"`
	Path      string `json:"path,omitempty"`
	MediaType string `json:"mediaType,omitempty"`
}
