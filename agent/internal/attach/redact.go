package attach

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
)

// The texts around the digest of a content that is not kept.
const (
	markerHead = "(attached; not kept here: "
	markerTail = ")"
)

// marker returns what stands for a content in a transcript.
func marker(data []byte) string {
	sum := sha256.Sum256(data)
	return fmt.Sprintf("%s%d bytes, sha256 %s%s", markerHead, len(data),
		hex.EncodeToString(sum[:]), markerTail)
}

func isMarker(content string) bool {
	return strings.HasPrefix(content, markerHead) && strings.HasSuffix(content, markerTail)
}

// Redact returns the arguments of a call with markers in place of the contents of attachments, and
// whether that are others. Arguments that are not a JSON object and may have attachments become an
// empty one. So does nothing that is in a content get into a transcript, an event or a log.
func Redact(args json.RawMessage) (shown json.RawMessage, changed bool) {
	if !bytes.Contains(bytes.ToLower(args), []byte("attach")) && !bytes.ContainsRune(args, '\\') {
		return args, false // no member of that name, also not in escapes
	}
	var all map[string]json.RawMessage
	if json.Unmarshal(args, &all) != nil {
		return json.RawMessage("{}"), true
	}
	for name, value := range all {
		if isNamed(name, "attachments") && string(bytes.TrimSpace(value)) != "null" {
			all[name], changed = redactList(value), true
		}
	}
	if !changed {
		return args, false
	}
	return encode(all), true
}

// isNamed reports whether a member is meant to have a name.
func isNamed(member, name string) bool {
	return strings.EqualFold(strings.TrimSpace(member), name)
}

// redactList returns the value of attachments without contents.
func redactList(value json.RawMessage) json.RawMessage {
	var files []json.RawMessage
	if json.Unmarshal(value, &files) != nil {
		return encode(marker(value))
	}
	for i, raw := range files {
		var file map[string]json.RawMessage
		if json.Unmarshal(raw, &file) != nil {
			files[i] = encode(marker(raw))
			continue
		}
		files[i] = encode(redactFile(file))
	}
	return encode(files)
}

// maxKept is how many bytes of another member of an attachment are kept, as JSON.
const maxKept = 600

// redactFile replaces the content of an attachment, and whatever else may be one.
func redactFile(file map[string]json.RawMessage) map[string]json.RawMessage {
	encoding := ""
	for name, value := range file {
		if isNamed(name, "encoding") {
			_ = json.Unmarshal(value, &encoding) // what is not a text names none
		}
	}
	for name, value := range file {
		known := isNamed(name, "name") || isNamed(name, "encoding") || isNamed(name, "mimeType")
		if known && len(value) <= maxKept {
			continue
		}
		data, content := []byte(value), ""
		if json.Unmarshal(value, &content) == nil {
			data = []byte(content)
			if decoded, err := Decode(content, encoding); err == nil {
				data = decoded
			}
		}
		if !isMarker(content) {
			file[name] = encode(marker(data))
		}
	}
	return file
}

// encode returns a value as JSON. The values of this package all have one.
func encode(v any) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil {
		return json.RawMessage("{}")
	}
	return bytes.TrimSpace(b.Bytes())
}
