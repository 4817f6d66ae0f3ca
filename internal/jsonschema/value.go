package jsonschema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"

	"github.com/offshoot-sdk/offshoot/internal/text"
)

// decode reads a JSON text of at most so many levels. Numbers are json.Number. A member that stands
// twice in one object is an error.
func decode(data []byte, levels int) (any, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, errors.New("it is empty")
	}
	var whole json.RawMessage
	if err := json.Unmarshal(data, &whole); err != nil {
		return nil, fmt.Errorf("it is not JSON: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return decodeValue(d, levels)
}

func decodeValue(d *json.Decoder, levels int) (any, error) {
	token, err := d.Token()
	delim, nested := token.(json.Delim)
	if err != nil || !nested {
		return token, err
	}
	if levels == 0 {
		return nil, errors.New("it has too many levels")
	}
	if delim == '[' {
		list := []any{}
		for d.More() {
			v, err := decodeValue(d, levels-1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err = d.Token()
		return list, err
	}
	object := make(map[string]any)
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		key, _ := name.(string)
		if _, twice := object[key]; twice {
			return nil, fmt.Errorf("the member %s is there twice", text.QuoteWhole(key))
		}
		if object[key], err = decodeValue(d, levels-1); err != nil {
			return nil, err
		}
	}
	_, err = d.Token()
	return object, err
}

// The bounds of a number that is calculated with.
const (
	maxDigits   = 100
	maxExponent = 1000
)

// rational returns the exact value of a number, and false for one whose text is too long.
func rational(n json.Number) (*big.Rat, bool) {
	s := string(n)
	if len(s) > maxDigits {
		return nil, false
	}
	if _, exponent, ok := strings.Cut(strings.ToLower(s), "e"); ok {
		if e, err := strconv.Atoi(exponent); err != nil || max(e, -e) > maxExponent {
			return nil, false
		}
	}
	return new(big.Rat).SetString(s)
}

// isPlainInteger reports whether a number is written without fraction and exponent.
func isPlainInteger(n json.Number) bool { return !strings.ContainsAny(string(n), ".eE") }

// kindOf returns the type of a value, with its article.
func kindOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case json.Number:
		if isPlainInteger(v) {
			return "an integer"
		}
		return "a number"
	case string:
		return "a string"
	case []any:
		return "an array"
	}
	return "an object"
}

// shown returns a value for an error text: a scalar as it is, or how long it is, else its type. No
// part of a long one is repeated: it could be a part of a secret, which no mask would know.
func shown(v any) string {
	switch v := v.(type) {
	case bool:
		return strconv.FormatBool(v)
	case json.Number:
		if len(v) > maxDigits {
			return "a number of " + text.Count(len(v), "byte", "bytes")
		}
		return string(v)
	case string:
		return text.QuoteWhole(v)
	}
	return kindOf(v)
}

// canonical returns a text that is the same for equal values alone.
func canonical(v any) string {
	var b strings.Builder
	writeCanonical(&b, v)
	return b.String()
}

func writeCanonical(b *strings.Builder, v any) {
	switch v := v.(type) {
	case json.Number:
		if r, ok := rational(v); ok {
			b.WriteString(r.RatString())
			return
		}
		b.WriteString(string(v))
	case string:
		b.WriteString(strconv.Quote(v))
	case []any:
		b.WriteByte('[')
		for _, x := range v {
			writeCanonical(b, x)
			b.WriteByte(',')
		}
		b.WriteByte(']')
	case map[string]any:
		b.WriteByte('{')
		for _, name := range sorted(v) {
			b.WriteString(strconv.Quote(name) + ":")
			writeCanonical(b, v[name])
			b.WriteByte(',')
		}
		b.WriteByte('}')
	default:
		fmt.Fprint(b, v)
	}
}

// A pattern is a regular expression and how many instructions it has at most.
type pattern struct {
	expr *regexp.Regexp
	text string
	size int
}

// pattern compiles a regular expression in the syntax of package regexp, which takes linear time.
func (c *compiler) pattern(at, expr string) *pattern {
	if c.err != nil {
		return nil
	}
	tree, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		c.fail(at, "the pattern %s is not one that Go knows: %v", text.QuoteWhole(expr), clip(err))
		return nil
	}
	size := sizeOf(tree)
	if c.patterns -= size; c.patterns < 0 {
		c.fail(at, "the patterns are too large together: %s", text.QuoteWhole(expr))
		return nil
	}
	re, err := regexp.Compile(expr)
	if err != nil {
		c.fail(at, "the pattern %s is not one that Go knows: %v", text.QuoteWhole(expr), clip(err))
		return nil
	}
	return &pattern{re, expr, size}
}

// sizeOf returns about how many instructions a regular expression becomes.
func sizeOf(re *syntax.Regexp) int {
	size := 1 + len(re.Rune)
	for _, sub := range re.Sub {
		size += sizeOf(sub)
	}
	if re.Op == syntax.OpRepeat {
		size *= max(1, re.Min, re.Max)
	}
	return min(size, maxPattern+1)
}

func clip(err error) string { return text.Cut(err.Error(), 200) }

func itoa(i int) string { return strconv.Itoa(i) }
