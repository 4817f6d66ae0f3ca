package jsonschema_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/jsonschema"
)

type tripStruct struct {
	City   string            `json:"city"`
	Days   int8              `json:"days"`
	Start  time.Time         `json:"start,omitzero"`
	Stops  []stopStruct      `json:"stops,omitempty"`
	Notes  map[string]string `json:"notes,omitempty"`
	Budget *float64          `json:"budget"`
	Photo  []byte            `json:"photo,omitempty"`
	Seats  uint64            `json:"seats,omitempty"`
}

type stopStruct struct {
	Name  string `json:"name"`
	Night bool   `json:"night"`
}

// A5: what a value of a Go type may be, and what a model is told of one that is not: a sentence
// with the member and what is wanted.
func TestValuesOfTypes(t *testing.T) {
	t.Parallel()
	_, trip, err := jsonschema.For[tripStruct]()
	require.NoError(t, err)
	for in, want := range map[string]string{
		`{"city":"Rome","days":3}`:                                         "",
		`{"city":"Rome","days":3,"budget":null,"stops":null}`:              "",
		`{"city":"","days":-128,"budget":1.5e3}`:                           "",
		`{"city":"Rome","days":3,"start":"2026-01-02T03:04:05+01:00"}`:     "",
		`{"city":"Rome","days":3,"notes":{"a b":"c"},"photo":"aGk="}`:      "",
		`{"city":"Rome","days":3,"stops":[{"name":"Ostia","night":true}]}`: "",

		`{}`:                   "city is missing: want a string; days is missing: want an integer from -128 to 127",
		``:                     "it is empty",
		`null`:                 "the value is null: want an object",
		`[]`:                   "the value is an array: want an object",
		`"Rome"`:               "the value is a string: want an object",
		`{"city":"Rome"`:       "it is not JSON: unexpected end of JSON input",
		`Rome`:                 "it is not JSON: invalid character 'R' looking for beginning of value",
		`{"city":"Rome"} then`: "it is not JSON: invalid character 't' after top-level value",
		`{"days":3}`:           "city is missing: want a string",

		`{"city":null,"days":3}`:     "city is null: want a string",
		`{"city":7,"days":"3"}`:      "city is an integer: want a string; days is a string: want an integer from -128 to 127",
		`{"city":"Rome","days":1e1}`: "days is 1e1: want an integer without a fraction or exponent",
		`{"city":"Rome","days":3.5}`: "days is a number: want an integer from -128 to 127",
		`{"city":"Rome","days":128}`: "days is 128: want an integer from -128 to 127",

		`{"city":"Rome","days":3,"seats":-1}`:                                         "seats is -1: want an integer of at least 0",
		`{"city":"Rome","days":3,"town":"Rome"}`:                                      `town is not known: want one of "budget", "city", "days", "notes", "photo", "seats", "start", "stops"`,
		`{"City":"Rome","city":"Rome","days":3}`:                                      `City is not known: want one of "budget", "city", "days", "notes", "photo", "seats", "start", "stops"`,
		`{"city":"Rome","days":3,"city":"Oslo"}`:                                      `the member "city" is there twice`,
		`{"city":"Rome","days":3,"start":"today"}`:                                    `start is "today": want a date and time such as "2006-01-02T15:04:05Z"`,
		`{"city":"Rome","days":3,"photo":"???"}`:                                      `photo is "???": want base64`,
		`{"city":"Rome","days":3,"notes":{"a b":1}}`:                                  `notes["a b"] is an integer: want a string`,
		`{"city":"Rome","days":3,"stops":[{"name":"Ostia","night":true},{"name":7}]}`: "stops[1].night is missing: want a boolean; stops[1].name is an integer: want a string",
		`{"city":"Rome","days":3,"stops":{}}`:                                         "stops is an object: want an array",
	} {
		err := trip.Validate([]byte(in))
		if want == "" {
			require.NoError(t, err, in)
			require.NoError(t, json.Unmarshal([]byte(in), new(tripStruct)), in)
			continue
		}
		require.EqualError(t, err, want, in)
	}
}

// A5: every keyword that checks something does.
func TestKeywords(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ schema, fits, not, want string }{
		{`true`, `1`, ``, ""},
		{`false`, ``, `1`, "the value is not allowed here"},
		{`{"type":["string","null"]}`, `null`, `1`, "the value is an integer: want a string or null"},
		{`{"type":"integer"}`, `10.0`, `0.5`, "the value is a number: want an integer"},
		{`{"enum":["c",1.0,null]}`, `1`, `"k"`, `the value is "k": want one of "c", 1.0, null`},
		{`{"const":{"a":[1]}}`, `{"a":[1.0]}`, `{"a":[2]}`, "the value is an object: want an object"},
		{`{"minimum":1,"maximum":3}`, `3`, `4`, "the value is 4: want a number from 1 to 3"},
		{`{"exclusiveMinimum":0,"exclusiveMaximum":0.5}`, `0.25`, `0`, "the value is 0: want a number above 0 and below 0.5"},
		{`{"minimum":1}`, `"text"`, `1e-400`, "the value is 1e-400: want a number of at least 1"},
		{`{"maximum":1}`, `-1`, `1e99999`, "the value is a number with too many digits: want a number of at most 1"},
		{`{"multipleOf":0.1}`, `0.3`, `0.25`, "the value is 0.25: want a multiple of 0.1"},
		{`{"minLength":2,"maxLength":3}`, `"日本"`, `"日"`, "the value has 1 character: want at least 2"},
		{`{"pattern":"^[a-z]+$"}`, `"abc"`, `"A"`, `the value is "A": want a string that matches "^[a-z]+$"`},
		{`{"format":"date-time"}`, `"today"`, ``, ""},
		{`{"items":{"type":"string"}}`, `["a"]`, `["a",1]`, "[1] is an integer: want a string"},
		{`{"prefixItems":[true,{"type":"string"}],"items":false}`, `[1,"a"]`, `[1,"a",2]`, "[2] is not allowed here"},
		{`{"items":[true,{"type":"string"}],"additionalItems":{"type":"null"}}`, `[1,"a",null]`, `[1,2]`, "[1] is an integer: want a string"},
		{`{"minItems":1,"maxItems":2}`, `[1]`, `[]`, "the value has 0 items: want at least 1"},
		{`{"uniqueItems":true}`, `[1,"1"]`, `[1,2,1.0]`, "[2] is the same as an item before it: want each item once"},
		{`{"contains":{"type":"string"}}`, `[1,"a"]`, `[1]`, "the value has 0 items that are a string: want from 1 to 1"},
		{`{"contains":{"type":"string"},"minContains":0,"maxContains":1}`, `[]`, `["a","b"]`, "the value has 2 items that are a string: want from 0 to 1"},
		{`{"properties":{"a":{"type":"null"}}}`, `{"a":null,"b":1}`, `{"a":1}`, "a is an integer: want null"},
		{`{"patternProperties":{"^x":{"type":"string"}},"additionalProperties":false}`, `{"xy":"a"}`, `{"y":"a"}`, "y is not known: want an object without members"},
		{`{"additionalProperties":{"type":"string"}}`, `{"a":"b"}`, `{"a":1}`, "a is an integer: want a string"},
		{`{"propertyNames":{"maxLength":2}}`, `{"ab":1}`, `{"abc":1}`, "abc is not a name that is allowed: want a value"},
		{`{"required":["a"],"properties":{"a":{"enum":["x","y"]}}}`, `{"a":"x"}`, `{}`, `a is missing: want one of "x", "y"`},
		{`{"minProperties":1,"maxProperties":1}`, `{"a":1}`, `{"a":1,"b":1}`, "the value has 2 members: want at most 1"},
		{`{"dependentRequired":{"a":["b"]}}`, `{"b":1}`, `{"a":1}`, `b is missing: "a" asks for it`},
		{`{"dependencies":{"a":["b"],"c":{"required":["d"]}}}`, `{"a":1,"b":1}`, `{"c":1}`, "d is missing: want a value"},
		{`{"dependentSchemas":{"a":{"maxProperties":1}}}`, `{"a":1}`, `{"a":1,"b":1}`, "the value has 2 members: want at most 1"},
		{`{"allOf":[{"type":"string"},{"minLength":1}]}`, `"a"`, `""`, "the value has 0 characters: want at least 1"},
		{`{"anyOf":[{"type":"string"},{"type":"null"}]}`, `null`, `1`, "the value is an integer that fits none of the forms: want a string or null"},
		{`{"anyOf":[{"type":"object","required":["a"]},{"type":"null"}]}`, `{"a":1}`, `{}`, "a is missing: want a value"},
		{`{"oneOf":[{"type":"integer"},{"minimum":2}]}`, `1`, `3`, "the value fits 2 of the forms of which it is to have exactly one"},
		{`{"not":{"type":"null"}}`, `1`, `null`, "the value is what is not allowed here: null"},
		{`{"if":{"type":"string"},"then":{"minLength":1},"else":{"minimum":1}}`, `"a"`, `0`, "the value is 0: want a number of at least 1"},
		{`{"if":{"required":["a"]},"then":{"required":["b"]}}`, `{}`, `{"a":1}`, "b is missing: want a value"},
		{`{"$ref":"#/$defs/a~1b","$defs":{"a/b":{"type":"string"}}}`, `"a"`, `1`, "the value is an integer: want a string"},
		{`{"properties":{"a":{"type":"string"},"b":{"$ref":"#/properties/a"}}}`, `{"b":"x"}`, `{"b":1}`, "b is an integer: want a string"},
		{`{"$ref":"#/definitions/a","definitions":{"a":{"type":"string"}},"maxLength":1}`, `"a"`, `"ab"`, "the value has 2 characters: want at most 1"},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","$ref":"#/definitions/a","definitions":{"a":{"type":"string"}},"maxLength":1}`, `"ab"`, `1`, "the value is an integer: want a string"},
		{`{"properties":{"next":{"$ref":"#"}},"additionalProperties":false}`, `{"next":{"next":{}}}`, `{"next":{"last":1}}`, `next.last is not known: want one of "next"`},
	} {
		s, err := jsonschema.Compile([]byte(c.schema))
		require.NoError(t, err, c.schema)
		if c.fits != "" {
			require.NoError(t, s.Validate([]byte(c.fits)), c.schema)
		}
		if c.not != "" {
			require.EqualError(t, s.Validate([]byte(c.not)), c.want, c.schema)
		}
	}
}

// A5: what is not a schema is refused with the place of the fault.
func TestCompileRefuses(t *testing.T) {
	t.Parallel()
	many := strings.TrimSuffix(strings.Repeat(`{"pattern":"(a|b){1,500}"},`, 100), ",")
	for in, want := range map[string]string{
		``:                                "#: it is empty",
		`{"type":`:                        "#: it is not JSON: unexpected end of JSON input",
		`[]`:                              "#: an array is not a schema: want an object",
		`null`:                            "#: null is not a schema: want an object",
		`{"type":"strin"}`:                `#: "strin" is not a type: want one of "array", "boolean", "integer", "null", "number", "object", "string"`,
		`{"type":null}`:                   "#: type is null: want the name of a type, or a list of them",
		`{"type":[1]}`:                    "#: type is an array: want a list of strings",
		`{"a":1,"a":2}`:                   `#: the member "a" is there twice`,
		`{"properties":[]}`:               "#: properties is an array: want an object",
		`{"properties":{"a/b":1}}`:        "#/properties/a~1b: an integer is not a schema: want an object",
		`{"required":"a"}`:                `#: required is "a": want a list of strings`,
		`{"enum":[]}`:                     "#: enum is an array: want a list with values",
		`{"minimum":"1"}`:                 `#: minimum is "1": want a number`,
		`{"minLength":-1}`:                "#: minLength is -1: want a count",
		`{"maxItems":1.5}`:                "#: maxItems is 1.5: want a count",
		`{"multipleOf":0}`:                "#: multipleOf is 0: want a number above 0",
		`{"exclusiveMinimum":true}`:       "#: exclusiveMinimum is true: want a number",
		`{"uniqueItems":1}`:               "#: uniqueItems is 1: want true or false",
		`{"anyOf":{}}`:                    "#: anyOf is an object: want a list with schemas",
		`{"pattern":"(?=a)"}`:             "#: the pattern \"(?=a)\" is not one that Go knows: error parsing regexp: invalid or unsupported Perl syntax: `(?=`",
		`{"pattern":7}`:                   "#: pattern is 7: want a string",
		`{"anyOf":[` + many + `]}`:        "are too large together",
		`{"$ref":7}`:                      "#: $ref is 7: want a string",
		`{"$ref":"#/$defs/x"}`:            `#: $ref "#/$defs/x" leads to nothing`,
		`{"$ref":"http://example.com"}`:   "want a place in the same schema",
		`{"$dynamicRef":"#a"}`:            "#: $dynamicRef is not known here: use $ref",
		`{"unevaluatedProperties":false}`: "#: unevaluatedProperties is not known here",
		`{"$ref":"#"}`:                    "#: it refers to itself without going into the value",
		`{"anyOf":[{"not":{"$ref":"#/anyOf/0"}}]}`:                                                     "it refers to itself without going into the value",
		`{"$ref":"#/$defs/a","$defs":{"a":{"allOf":[{"$ref":"#/$defs/b"}]},"b":{"$ref":"#/$defs/a"}}}`: "it refers to itself without going into the value",
		strings.Repeat(`{"items":`, 300) + `{}` + strings.Repeat(`}`, 300):                             "#: it has too many levels",
		`{"allOf":[` + strings.Repeat(`{},`, 20_000) + `{}]}`:                                          "#: it holds more than 10000 schemas",
		`{"title":"` + strings.Repeat("x", 2<<20) + `"}`:                                               "#: it has 2097164 bytes; the limit is 1048576",
	} {
		_, err := jsonschema.Compile([]byte(in))
		require.Error(t, err, in[:min(len(in), 100)])
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "the schema at #")
		require.Less(t, len(err.Error()), 1000)
		var e *jsonschema.SchemaError
		require.ErrorAs(t, err, &e)
	}
}

// doubling is a schema that looks at a value 2^n times.
func doubling(n int) string {
	var b strings.Builder
	b.WriteString(`{"$ref":"#/$defs/a0","$defs":{`)
	for i := range n {
		fmt.Fprintf(&b, `"a%d":{"allOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%[2]d"}]},`, i, i+1)
	}
	fmt.Fprintf(&b, `"a%d":{}}}`, n)
	return b.String()
}

// A5: no schema and no value makes a check long or deep: it ends, within the steps that it has.
func TestHostileValues(t *testing.T) {
	t.Parallel()
	nested := func(n int, open, shut string) string {
		return strings.Repeat(open, n) + "1" + strings.Repeat(shut, n)
	}
	const tooMuch = "it is too large or too deep to be checked against its schema"
	for _, c := range []struct{ schema, value, want string }{
		{doubling(60), `1`, tooMuch},
		{
			`{"properties":{"a":{"anyOf":[{"$ref":"#"},{"$ref":"#"}]}},"required":["b"]}`,
			nested(60, `{"a":`, `}`), "b is missing: want a value",
		},
		{
			`{"properties":{"a":{"anyOf":[{"$ref":"#"},{"$ref":"#"}]}},"not":{"properties":{"a":{"$ref":"#"}}}}`,
			nested(100, `{"a":`, `}`), "",
		},
		{`{"items":{"$ref":"#"}}`, nested(400, `[`, `]`), ""},
		{`{"items":{"$ref":"#"}}`, nested(100_000, `[`, `]`), "exceeded max depth"},
		{`{"items":{"$ref":"#"}}`, nested(9_000, `[`, `]`), "it has too many levels"},
		{`{"pattern":"(a{1,100}b){1,10}c"}`, `"` + strings.Repeat("a", 900_000) + `"`, tooMuch},
		{`{"uniqueItems":true}`, `[` + strings.Repeat(`0,`, 300_000) + `0]`, "[1] is the same"},
		{`{"items":{"enum":["` + strings.Repeat("a", 1000) + `"]}}`, `[` + strings.Repeat(`"b",`, 300_000) + `0]`, "[0] is"},
		{`{"minimum":0}`, strings.Repeat("9", 1_000_000), "a number with too many digits"},
		{`{"type":"integer"}`, `1e999999999`, "the value is a number: want an integer"},
		{`{"type":"string"}`, `[` + strings.Repeat(`"secret",`, 100_000) + `0]`, "the value is an array: want a string"},
	} {
		s, err := jsonschema.Compile([]byte(c.schema))
		require.NoError(t, err)
		err = s.Validate([]byte(c.value))
		if c.want == "" {
			continue // whatever it says, it has ended
		}
		require.ErrorContains(t, err, c.want)
		require.Less(t, len(err.Error()), 1000)
	}
}

func FuzzSchema(f *testing.F) {
	f.Add(`{"type":"object","properties":{"a":{"$ref":"#/$defs/b"}},"$defs":{"b":{"enum":[1,"x"]}}}`, `{"a":1}`)
	f.Add(`{"oneOf":[{"pattern":"^a"},{"items":{"$ref":"#"},"uniqueItems":true}]}`, `[["a"],[]]`)
	f.Add(doubling(20), `null`)
	f.Fuzz(func(t *testing.T, schema, value string) {
		s, err := jsonschema.Compile([]byte(schema))
		if err != nil {
			return
		}
		if err := s.Validate([]byte(value)); err != nil {
			require.NotEmpty(t, err.Error())
			require.True(t, json.Valid([]byte(value)) || strings.Contains(err.Error(), "it is"))
		}
	})
}

// A5: encoding/json reads "null" in a string as the zero value, and an error of it does not name
// the member.
func TestQuotedScalarsAreChecked(t *testing.T) {
	t.Parallel()
	type quoted struct {
		I  int64       `json:"i,string,omitempty"`
		U  uint8       `json:"u,string,omitempty"`
		F  float64     `json:"f,string,omitempty"`
		B  bool        `json:"b,string,omitempty"`
		S  string      `json:"s,string,omitempty"`
		N  json.Number `json:"n,string,omitempty"`
		PI *int        `json:"pi,string"`
		PB *bool       `json:"pb,string"`
	}
	_, schema, err := jsonschema.For[quoted]()
	require.NoError(t, err)
	for name, good := range map[string][]string{
		"i": {"0", "-5", "9223372036854775807"}, "u": {"0", "255"}, "f": {"1", "-0.5", "1e300", "2.5E-3"},
		"b": {"true", "false"}, "s": {`\"\"`, `\"a b\"`}, "n": {"1.5"}, "pi": {"7"}, "pb": {"true"},
	} {
		for _, text := range good {
			data := []byte(`{"` + name + `":"` + text + `"}`)
			require.NoError(t, schema.Validate(data), string(data))
			require.NoError(t, json.Unmarshal(data, new(quoted)), string(data))
		}
		for _, text := range []string{
			"null", "", " 1", "1 ", "01", "TRUE", "x", "1\\n", strings.Repeat("z", 900_000),
		} {
			err := schema.Validate([]byte(`{"` + name + `":"` + text + `"}`))
			require.ErrorContains(t, err, name+" is", "%.20s", text)
			require.Less(t, len(err.Error()), 1000)
		}
	}
}
