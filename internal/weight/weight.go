package weight

import (
	"fmt"
	"math"
	"reflect"

	"github.com/offshoot-sdk/offshoot/internal/sat"
)

// Limits are how many bytes there may be.
type Limits struct {
	Each int // in one text, or one slice of bytes
	All  int // in all texts and the items of all slices and maps together
}

// OfConfig bounds the texts of a configuration.
var OfConfig = Limits{Each: 1_000_000, All: 10_000_000}

// An Error is a text that is too long, or everything together.
type Error struct {
	Path  string // "Extra[2].Text"; empty: everything together
	Bytes int
	Limit int
}

func (e *Error) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("its parts have %d bytes together, the limit is %d", e.Bytes, e.Limit)
	}
	return fmt.Sprintf("it has %d bytes, the limit is %d", e.Bytes, e.Limit)
}

// Check returns an *Error for the first text in v that is over the limits, or nil. It looks at
// strings and bytes in the exported fields of structs, in slices, maps and pointers. It does not
// look at what an interface, a function or a channel holds. The data must not contain themselves.
func Check(v any, l Limits) *Error {
	s := scale{limits: l}
	s.add(reflect.ValueOf(v), "")
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
		s.addItems(v.Len(), v.Type().Elem())
		for i := 0; i < v.Len() && s.over == nil; i++ {
			s.add(v.Index(i), fmt.Sprintf("%s[%d]", path, i))
		}
	case reflect.Map:
		s.addItems(v.Len(), v.Type().Elem())
		for key, value := range v.Seq2() {
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

// addItems adds the memory of n items.
func (s *scale) addItems(n int, typ reflect.Type) {
	size := max(1, int(typ.Size()))
	if n > math.MaxInt/size {
		s.addBytes(math.MaxInt)
		return
	}
	s.addBytes(n * size)
}

func (s *scale) addText(bytes int, path string) {
	if bytes > s.limits.Each && s.over == nil {
		s.over = &Error{Path: path, Bytes: bytes, Limit: s.limits.Each}
	}
	s.addBytes(bytes)
}

func (s *scale) addBytes(n int) {
	s.sum = sat.Add(s.sum, n)
	if s.over == nil && s.sum > s.limits.All {
		s.over = &Error{Bytes: s.sum, Limit: s.limits.All}
	}
}
