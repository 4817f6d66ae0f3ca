package agent

import (
	"bytes"
	"encoding/json"
)

// repeatedMember returns the name of a member that stands twice in one object of a JSON text, at
// any depth, and false if there is none. Decoders take the last one, and a reader who checks the
// first one, such as a filter or a person who approves the call, sees something else.
func repeatedMember(text []byte) (name string, found bool) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	type container struct {
		names map[string]bool // nil for a list
		value bool            // the value of a member comes next
	}
	var open []container
	for {
		token, err := d.Token()
		if err != nil { // the end, or the decoder of the text says what is wrong
			return "", false
		}
		if n := len(open); n > 0 && open[n-1].names != nil {
			in := &open[n-1]
			if key, ok := token.(string); ok && !in.value {
				if in.names[key] {
					return key, true
				}
				in.names[key], in.value = true, true
				continue
			}
			in.value = false
		}
		switch token {
		case json.Delim('{'):
			open = append(open, container{names: make(map[string]bool)})
		case json.Delim('['):
			open = append(open, container{})
		case json.Delim('}'), json.Delim(']'):
			open = open[:len(open)-1]
		}
	}
}
