package provider

import (
	"encoding/json"
	"slices"
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
