package provider

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/offshoot-sdk/offshoot/agent"
	"github.com/offshoot-sdk/offshoot/spawn"
)

// Strict reports whether a JSON Schema is one that providers can hold a model to: the schema of an
// object, in which every object has all its properties and takes no others, and each word is one
// that they know. A model is told a schema that is not strict in its prompt alone.
func Strict(schema json.RawMessage) bool {
	var root map[string]any
	if json.Unmarshal(schema, &root) != nil {
		return false
	}
	return root["type"] == "object" && strict(root)
}

// maxAround is how many levels of JSON a request has around the schema of a tool, and more.
const maxAround = 50

// ToolSchema returns the schema of the arguments of a tool for a request, in valid UTF-8: that of
// an object without members for a tool that has none. The error is an *[spawn.InputError] that
// names the tool: its schema is not a JSON object, or is nested more deeply than a request may be.
// Another try comes to the same, and nothing was sent.
func ToolSchema(tool agent.Tool) (json.RawMessage, error) {
	if len(tool.Schema) == 0 {
		return json.RawMessage(`{"type":"object","properties":{}}`), nil
	}
	schema := ValidJSON(tool.Schema)
	var object map[string]json.RawMessage
	err := json.Unmarshal(schema, &object)
	switch within := slices.Concat(bytes.Repeat([]byte("["), maxAround), schema,
		bytes.Repeat([]byte("]"), maxAround)); {
	case err == nil && object == nil:
		err = errors.New("it is null")
	case err == nil && !json.Valid(within):
		err = errors.New("it is nested too deeply for a request")
	}
	if err != nil {
		return nil, &spawn.InputError{
			Field: "Tool.Schema", Reason: fmt.Sprintf("that of the tool %q is not a JSON object that "+
				"can be sent: %v", tool.Name, err),
		}
	}
	return schema, nil
}

// strictWords are the words of a schema that every provider knows.
var strictWords = []string{
	"type", "properties", "required", "additionalProperties", "items", "description", "title",
	"enum", "const", "anyOf",
}

// strict reports whether a part of a schema is strict.
func strict(part map[string]any) bool {
	for word, value := range part {
		if !slices.Contains(strictWords, word) {
			return false
		}
		switch word {
		case "items":
			item, ok := value.(map[string]any)
			if !ok || !strict(item) {
				return false
			}
		case "anyOf":
			list, ok := value.([]any)
			for _, one := range list {
				item, isMap := one.(map[string]any)
				ok = ok && isMap && strict(item)
			}
			if !ok {
				return false
			}
		}
	}
	properties, has := part["properties"].(map[string]any)
	if part["type"] != "object" && !has {
		return true
	}
	required, _ := part["required"].([]any)
	if part["additionalProperties"] != false || len(required) != len(properties) {
		return false
	}
	for name, value := range properties {
		property, ok := value.(map[string]any)
		if !ok || !strict(property) || !slices.Contains(required, any(name)) {
			return false
		}
	}
	return true
}
