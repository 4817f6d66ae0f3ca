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

// keywordFault returns what is wrong with the value of a keyword that stands at a path, or "". The
// keywords that it does not know are the provider's to judge.
func keywordFault(name, at string, v any) string {
	_, isList := v.([]any)
	switch name {
	case "type":
		return wordsFault(at, v, schemaTypes)
	case "required", "enum":
		if !isList {
			return at + " is not a list"
		}
		if name == "required" {
			return wordsFault(at, v, nil)
		}
	case "properties", "patternProperties", "$defs", "definitions":
		return membersFault(at, v)
	case "allOf", "anyOf", "oneOf", "prefixItems":
		return itemsFault(at, v)
	case "items":
		if isList { // as in drafts before that of 2020
			return itemsFault(at, v)
		}
		return partFault(at, v)
	case "additionalProperties", "not":
		return partFault(at, v)
	}
	return ""
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
		fault := keywordFault(name, strings.TrimPrefix(at+"."+name, "."), s[name])
		if fault != "" {
			return fault
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
