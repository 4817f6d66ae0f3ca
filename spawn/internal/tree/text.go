package tree

import (
	"encoding/base64"
	"encoding/json"
	"unicode/utf8"
)

// Text is a string that survives JSON byte for byte: what is not UTF-8 is written as base64.
type Text string

// MarshalJSON implements json.Marshaler.
func (t Text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	return json.Marshal(map[string]string{"base64": base64.StdEncoding.EncodeToString([]byte(t))})
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *Text) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '{' {
		var w struct {
			Base64 []byte `json:"base64"`
		}
		if err := json.Unmarshal(data, &w); err != nil {
			return err
		}
		*t = Text(w.Base64)
		return nil
	}
	return json.Unmarshal(data, (*string)(t))
}
