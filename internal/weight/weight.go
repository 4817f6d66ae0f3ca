package weight

import (
	"fmt"
	"reflect"

	"github.com/offshoot-sdk/offshoot/internal/sat"
)

// perItem is how many bytes an item of a slice or a map counts beside its texts.
const perItem = 16

// Limits are how many bytes there may be.
type Limits struct {
	Each int // in one text, or one slice of bytes
	All  int // in all texts together, with 16 for each item of a slice or a map
}

// An Error is a text that is too long, or everything together.
type Error struct {
	Path  string // "Extra[2].Text"; empty: everything together
	Bytes int
	Limit int
}

func (e *Error) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("its texts have %d bytes together, the limit is %d", e.Bytes, e.Limit)
	}
	return fmt.Sprintf("it has %d bytes, the limit is %d", e.Bytes, e.Limit)
}

// Check returns an *Error for the first text in v that is over the limits, or nil. It looks at
// strings and bytes in the exported fields of structs, in slices, maps and pointers. It does not
// look at what an interface, a function or a channel holds. The data must not contain themselves.
func Check(v any, l Limits) *Error {
	s := scale{limits: l}
	s.add(reflect.ValueOf(v), "")
	if s.over == nil && s.sum > l.All {
		s.over = &Error{Bytes: s.sum, Limit: l.All}
	}
	return s.over
}

// A scale adds up what it is given until something is over its limits.
type scale struct {
	limits Limits
	sum    int
	over   *Error
}

// add adds a value that stands at a path.
func (s *scale) add(v reflect.Value, path string) {
	if s.over != nil {
		return
	}
	switch v.Kind() {
	case reflect.String:
		s.addText(v.Len(), path)
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			s.addText(v.Len(), path)
			return
		}
		for i := range v.Len() {
			s.sum = sat.Add(s.sum, perItem)
			s.add(v.Index(i), fmt.Sprintf("%s[%d]", path, i))
		}
	case reflect.Map:
		for key, value := range v.Seq2() {
			s.sum = sat.Add(s.sum, perItem)
			s.add(key, path+"[...]")
			s.add(value, fmt.Sprintf("%s[%.40q]", path, fmt.Sprint(key)))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			s.add(v.Elem(), path)
		}
	case reflect.Struct:
		s.addFields(v, path)
	default:
	}
}

// addFields adds the exported fields of a struct.
func (s *scale) addFields(v reflect.Value, path string) {
	if path != "" {
		path += "."
	}
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() {
			s.add(v.Field(i), path+f.Name)
		}
	}
}

func (s *scale) addText(bytes int, path string) {
	s.sum = sat.Add(s.sum, bytes)
	if bytes > s.limits.Each {
		s.over = &Error{Path: path, Bytes: bytes, Limit: s.limits.Each}
	}
}
