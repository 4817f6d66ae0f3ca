package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/offshoot-sdk/offshoot/internal/text"
)

// schemaFault returns why a schema cannot be that of a tool's arguments, or "". It looks at the
// form alone: providers refuse every request that has a tool whose schema is not one.
func schemaFault(schema json.RawMessage) string {
	if schema == nil {
		return ""
	}
	var v any
	if err := json.Unmarshal(schema, &v); err != nil {
		return "it is not JSON: " + text.Bound(err.Error(), 200)
	}
	object, ok := v.(map[string]any)
	if !ok {
		return fmt.Sprintf("it is %s, not a JSON object",
			text.Quote(string(bytes.TrimSpace(schema))))
	}
	if typ, ok := object["type"]; ok && typ != "object" {
		return fmt.Sprintf("its type is %s, and arguments are an object",
			text.Quote(fmt.Sprint(typ)))
	}
	return partFault("", v)
}

// schemaTypes are the types that a schema may name.
var schemaTypes = []string{"array", "boolean", "integer", "null", "number", "object", "string"}

// schemaParts have for each keyword whose form is checked what is wrong with a value at a path.
// The other keywords are the provider's to judge.
var schemaParts map[string]func(at string, v any) string

func init() {
	types := func(at string, v any) string { return wordsFault(at, v, schemaTypes) }
	names := func(at string, v any) string {
		if _, ok := v.([]any); !ok {
			return at + " is not a list"
		}
		return wordsFault(at, v, nil)
	}
	list := func(at string, v any) string {
		if _, ok := v.([]any); !ok {
			return at + " is not a list"
		}
		return ""
	}
	schemaParts = map[string]func(at string, v any) string{
		"type": types, "required": names, "enum": list,
		"properties": membersFault, "patternProperties": membersFault, "$defs": membersFault,
		"definitions": membersFault, "allOf": itemsFault, "anyOf": itemsFault,
		"oneOf": itemsFault, "prefixItems": itemsFault, "additionalProperties": partFault,
		"not": partFault,
		"items": func(at string, v any) string {
			if _, ok := v.([]any); ok { // as in drafts before that of 2020
				return itemsFault(at, v)
			}
			return partFault(at, v)
		},
	}
}

// partFault returns what is wrong with the form of a schema that stands at a path, or "". A JSON
// text has at most 10,000 levels, so the calls end.
func partFault(at string, v any) string {
	if _, ok := v.(bool); ok {
		return ""
	}
	s, ok := v.(map[string]any)
	if !ok {
		return at + " is not a schema"
	}
	for _, name := range slices.Sorted(maps.Keys(s)) {
		if check := schemaParts[name]; check != nil {
			if fault := check(strings.TrimPrefix(at+"."+name, "."), s[name]); fault != "" {
				return fault
			}
		}
	}
	return ""
}

// membersFault is partFault for schemas by name.
func membersFault(at string, v any) string {
	members, ok := v.(map[string]any)
	if !ok {
		return at + " is not an object"
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if fault := partFault(at+"."+name, members[name]); fault != "" {
			return fault
		}
	}
	return ""
}

// itemsFault is partFault for a list of schemas.
func itemsFault(at string, v any) string {
	list, ok := v.([]any)
	if !ok {
		return at + " is not a list"
	}
	for i, item := range list {
		if fault := partFault(fmt.Sprintf("%s[%d]", at, i), item); fault != "" {
			return fault
		}
	}
	return ""
}

// wordsFault returns what is wrong with a word, or a list of words, of which each must be among
// those that are allowed; nil allows every word.
func wordsFault(at string, v any, allowed []string) string {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	for _, item := range list {
		word, ok := item.(string)
		if !ok {
			return at + " is not a name"
		}
		if allowed != nil && !slices.Contains(allowed, word) {
			return fmt.Sprintf("%s is %s, not one of %s", at, text.Quote(word),
				strings.Join(allowed, ", "))
		}
	}
	return ""
}
