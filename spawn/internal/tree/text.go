package tree

import (
	"encoding/base64"
	"encoding/json"
	"unicode/utf8"
)

// Text is a string that survives JSON byte for byte. A Text that is UTF-8 is written as a string,
// any other as an object with its base64 encoding.
type Text string

// MarshalJSON implements json.Marshaler. It does not fail.
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
