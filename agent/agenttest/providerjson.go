package agenttest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// A MemberError says that a request has not the members that a provider wants. [DecodeRequest]
// returns it, and the answer of a ProviderDialect may name the member.
type MemberError struct {
	Path    string // of the member, such as input[3].content
	Unknown bool   // the provider does not know it; false: it is missing
}

// Error names the member.
func (e *MemberError) Error() string {
	if e.Unknown {
		return fmt.Sprintf("the member %s is unknown", e.Path)
	}
	return fmt.Sprintf("the member %s is missing", e.Path)
}

// DecodeRequest decodes a request, or a value in one, as strictly as a provider does: a member that
// the type of to does not have, in its letter case, is a [*MemberError], and so is one that is
// missing or null and has the tag `need`.
//
// The tag says for which kinds of its object a member is needed: "*" for all, or a list such as
// "text,image". The kind is the text of the member "type", or of "role" where the type has no
// "type"; "" is that of an object without. The path says where in the request the value stands, ""
// for the request itself. What is a json.RawMessage is not looked into.
func DecodeRequest(data []byte, to any, path string) error {
	if err := checkMembers(data, reflect.TypeOf(to), path); err != nil {
		return err
	}
	return json.Unmarshal(data, to)
}

// checkMembers returns what is wrong with the members of a value of a type. A value of another type
// is left to the decoder.
func checkMembers(data json.RawMessage, of reflect.Type, path string) error {
	if data = bytes.TrimSpace(data); string(data) == "null" {
		return nil
	}
	switch of.Kind() {
	case reflect.Pointer:
		return checkMembers(data, of.Elem(), path)
	case reflect.Slice:
		if of.Elem().Kind() == reflect.Uint8 {
			return nil
		}
		for i, item := range read[[]json.RawMessage](data) {
			if err := checkMembers(item, of.Elem(), fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
	case reflect.Struct:
		return checkObject(data, of, path)
	default:
	}
	return nil
}

// checkObject returns what is wrong with the members of an object.
func checkObject(data json.RawMessage, of reflect.Type, path string) error {
	given := read[map[string]json.RawMessage](data)
	if given == nil {
		return nil
	}
	known := make(map[string]reflect.StructField)
	for _, f := range reflect.VisibleFields(of) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			known[name] = f
		}
	}
	at := func(name string) string { return strings.TrimPrefix(path+"."+name, ".") }
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if _, ok := known[name]; !ok {
			return &MemberError{Path: at(name), Unknown: true}
		}
	}
	kind := kindOf(given, known)
	for _, name := range slices.Sorted(maps.Keys(known)) {
		value := given[name]
		if needs(known[name], kind) && (value == nil || string(value) == "null") {
			return &MemberError{Path: at(name)}
		}
		if value != nil {
			if err := checkMembers(value, known[name].Type, at(name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// kindOf returns the kind of an object of a type with some members.
func kindOf(given map[string]json.RawMessage, known map[string]reflect.StructField) string {
	by := "role"
	if _, ok := known["type"]; ok {
		by = "type"
	}
	return read[string](given[by])
}

// read returns a value of a type, or its zero value for what is none.
func read[T any](data json.RawMessage) (value T) {
	var zero T
	if json.Unmarshal(data, &value) != nil {
		return zero
	}
	return value
}

// needs reports whether objects of a kind need a member.
func needs(f reflect.StructField, kind string) bool {
	tag, ok := f.Tag.Lookup("need")
	return ok && (tag == "*" || slices.Contains(strings.Split(tag, ","), kind))
}

// EachMember yields the path of each member of a request, at every depth, with the request without
// it. So the author of a ProviderDialect tests what it refuses.
func EachMember(request []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		var whole any
		if json.Unmarshal(request, &whole) == nil {
			eachMember(whole, "", func() []byte {
				without, _ := json.Marshal(whole) // of what came from JSON
				return without
			}, yield)
		}
	}
}

// eachMember takes each member out of a value in a whole, and puts it back. It reports whether
// yield wants more.
func eachMember(value any, path string, whole func() []byte, yield func(string, []byte) bool) bool {
	switch value := value.(type) {
	case []any:
		for i, item := range value {
			if !eachMember(item, fmt.Sprintf("%s[%d]", path, i), whole, yield) {
				return false
			}
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			member, at := value[name], strings.TrimPrefix(path+"."+name, ".")
			delete(value, name)
			more := yield(at, whole())
			value[name] = member
			if !more || !eachMember(member, at, whole, yield) {
				return false
			}
		}
	}
	return true
}
