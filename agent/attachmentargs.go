package agent

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/offshoot-sdk/offshoot/agent/internal/attach"
	"github.com/offshoot-sdk/offshoot/internal/text"
)

// attachmentArgs are the files of a call of sessions_spawn.
type attachmentArgs struct {
	files []Attachment
	data  [][]byte
}

// task returns the files for a Task, whose spawn reads them.
func (a *attachmentArgs) task() []Attachment {
	files := append([]Attachment(nil), a.files...)
	for i := range files {
		files[i].Reader = bytes.NewReader(a.data[i])
	}
	return files
}

// attachments reads the attachments of a call. An error does not repeat a content.
func (a *arguments) attachments() (list attachmentArgs) {
	raw, name := a.value("attachments")
	if raw == nil {
		return list
	}
	var given []json.RawMessage
	if json.Unmarshal(raw, &given) != nil {
		a.fail(name, "it is not a list of files")
		return list
	}
	for i, raw := range given {
		name := fmt.Sprintf("attachments[%d]", i)
		f, content, encoding := Attachment{}, (*string)(nil), ""
		var members map[string]json.RawMessage
		if json.Unmarshal(raw, &members) != nil || members == nil {
			a.fail(name, "it is not an object")
			return list
		}
		if member, twice := repeatedMember(raw); twice {
			a.fail(name, "its %s is there twice", text.Quote(member))
		}
		for member, value := range members {
			var to any
			switch member {
			case "name":
				to = &f.Name
			case "content":
				to = &content
			case "encoding":
				to = &encoding
			case "mimeType", "mime_type":
				to = &f.MediaType
			default:
				a.fail(name, "its member %s is not known; they are name, content, encoding and "+
					"mimeType", text.Quote(member))
				continue
			}
			if json.Unmarshal(value, to) != nil {
				a.fail(name, "its %s is not a string", member)
			}
		}
		if content == nil {
			a.fail(name, "its content is missing")
			return list
		}
		data, err := attach.Decode(*content, strings.TrimSpace(encoding))
		if bad, ok := errors.AsType[*attach.ContentError](err); ok {
			a.fail(name, "its content %s", bad.Reason)
		}
		list.files, list.data = append(list.files, f), append(list.data, data)
	}
	return list
}

// hint reads the argument attachAs, a text or an object with a mountPath.
func (a *arguments) hint(names ...string) string {
	raw, name := a.value(names...)
	if raw == nil {
		return ""
	}
	var as struct {
		MountPath  *string `json:"mountPath"`
		MountPath2 *string `json:"mount_path"`
	}
	var hint string
	if json.Unmarshal(raw, &hint) == nil {
		return strings.TrimSpace(hint)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if dec.Decode(&as) != nil || as.MountPath != nil && as.MountPath2 != nil {
		a.fail(name, "it is neither a text nor an object with a mountPath")
		return ""
	}
	if path := cmp.Or(as.MountPath, as.MountPath2); path != nil {
		hint = *path
	}
	return strings.TrimSpace(hint)
}

// withoutContents returns a message in which no call of sessions_spawn has the contents of
// attachments. The form of the provider would have them, and is left out then.
func withoutContents(m Message) Message {
	calls := m.ToolCalls
	for i, c := range calls {
		if !isSpawnCall(c.Name) {
			continue
		}
		shown, changed := attach.Redact(c.Args)
		if !changed {
			continue
		}
		if m.Raw = nil; &m.ToolCalls[0] == &calls[0] {
			m.ToolCalls = append([]ToolCall(nil), calls...)
		}
		m.ToolCalls[i].Args = shown
	}
	return m
}

// isSpawnCall reports whether a model means sessions_spawn.
func isSpawnCall(name string) bool { return strings.EqualFold(strings.TrimSpace(name), toolSpawn) }

// withAttachments returns a schema of sessions_spawn with what it has where models may attach
// files.
func (c *Config) withAttachments(schema json.RawMessage) json.RawMessage {
	if !c.Rules.Attachments.Enabled {
		return schema
	}
	most := c.Rules.Attachments.OrDefault().MaxFiles
	return bytes.Replace(schema, []byte(`"sandbox":`), fmt.Appendf(nil,
		`"attachments":{"type":"array","maxItems":%d,"description":"files for it","items":{`+
			`"type":"object","properties":{"name":{"type":"string","description":"no path"},`+
			`"content":{"type":"string"},"encoding":{"type":"string","enum":["utf8","base64"]},`+
			`"mimeType":{"type":"string"}},"required":["name","content"]}},`+
			`"attachAs":{"type":"string","description":"where you think of the files as being; a `+
			`hint only"},"sandbox":`, most), 1)
}

// inArguments returns what is wrong with a field of a Task as what is wrong with an argument, or
// nil if it is not one that the model gives by another name.
func inArguments(err error) error {
	bad, ok := errors.AsType[*InputError](err)
	if !ok {
		return nil
	}
	for field, argument := range map[string]string{
		"Task.Dir": "cwd", "Task.AttachAs": "attachAs", "Task.Attachments": "attachments",
	} {
		if rest, ok := strings.CutPrefix(bad.Field, field); ok {
			return newArgumentError(
				toolSpawn, argument+strings.Replace(rest, ".MediaType", ".mimeType", 1), bad.Reason)
		}
	}
	return nil
}
