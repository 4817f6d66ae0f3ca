package jsonschema_test

import (
	"encoding/json"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/jsonschema"
)

type (
	commonFields struct {
		ID string `json:"id"`
	}
	shelfStruct struct {
		commonFields
		Books  []bookStruct    `json:"books" doc:"what stands on it"`
		Labels map[string]bool `json:"labels,omitempty"`
	}
	bookStruct struct {
		Title   string  `json:"title"`
		Pages   *int    `json:"pages"`
		Price   float64 `json:",omitzero"`
		Hidden  string  `json:"-"`
		private string
	}
	recursiveStruct struct {
		Next *recursiveStruct
	}
	recursiveSlice     []recursiveSlice
	recursiveMap       map[string]recursiveMap
	recursiveEmbedding struct{ *recursiveEmbedding }
	hidingStruct       struct {
		commonFields
		ID bool `json:"id,omitempty"`
		N  *int `json:"n,string"`
	}
	repeatedStruct struct {
		A, B []commonFields
		commonFields
	}
)

func TestOfReturnsSchema(t *testing.T) {
	t.Parallel()
	_ = bookStruct{private: ""}
	const commonSchema = `{"type":"object","properties":{"id":{"type":"string"}},"required":["id"],"additionalProperties":false}`
	for in, want := range map[any]string{
		"":                   `{"type":"string"}`,
		true:                 `{"type":"boolean"}`,
		int8(0):              `{"type":"integer","minimum":-128,"maximum":127}`,
		time.Second:          `{"type":"integer"}`,
		float32(0):           `{"type":"number"}`,
		time.Time{}:          `{"type":"string","format":"date-time"}`,
		netip.Addr{}:         `{"type":"string"}`,
		[2]byte{}:            `{"type":"array","items":{"type":"integer","minimum":0,"maximum":255},"minItems":2,"maxItems":2}`,
		new(json.Number):     `{"type":"string"}`,
		new([]byte):          `{"type":"string","format":"byte"}`,
		new([]any):           `{"type":"array","items":{}}`,
		new([][]int):         `{"type":"array","items":{"type":"array","items":{"type":"integer"}}}`,
		new(map[string]*int): `{"type":"object","additionalProperties":{"type":["integer","null"]}}`,
		new(hidingStruct):    `{"type":"object","properties":{"id":{"type":"boolean"},"n":{"type":"string","pattern":"^-?(0|[1-9][0-9]*)$"}},"additionalProperties":false}`,
		new(json.RawMessage): `{}`,
		commonFields{}:       commonSchema,
		new(repeatedStruct): `{"type":"object","properties":{"A":{"type":"array","items":` + commonSchema + `},"B":{"type":"array","items":` + commonSchema +
			`},"id":{"type":"string"}},"required":["A","B","id"],"additionalProperties":false}`,
		new(shelfStruct): `{"type":"object","properties":{"id":{"type":"string"},"books":{"type":"array","description":"what stands on it","items":` +
			`{"type":"object","properties":{"title":{"type":"string"},"pages":{"type":"integer"},"Price":{"type":"number"}},` +
			`"required":["title"],"additionalProperties":false}},"labels":{"type":"object","additionalProperties":{"type":"boolean"}}},` +
			`"required":["id","books"],"additionalProperties":false}`,
	} {
		got, _, err := jsonschema.Of(reflect.TypeOf(in))
		require.NoError(t, err, "%T", in)
		assert.Equal(t, want, string(got), "%T", in)
	}
	got, _, err := jsonschema.For[commonFields]()
	require.NoError(t, err)
	assert.Equal(t, commonSchema, string(got))
}

// Of refuses a type that contains itself in any way, and terminates.
func TestOfRefusesTypesWithoutSchema(t *testing.T) {
	t.Parallel()
	for in, want := range map[reflect.Type]string{
		reflect.TypeFor[recursiveStruct]():      "field Next: jsonschema_test.recursiveStruct contains itself",
		reflect.TypeFor[recursiveSlice]():       "jsonschema_test.recursiveSlice contains itself",
		reflect.TypeFor[recursiveMap]():         "jsonschema_test.recursiveMap contains itself",
		reflect.TypeFor[recursiveEmbedding]():   "jsonschema_test.recursiveEmbedding contains itself",
		reflect.TypeFor[map[int]string]():       "map[int]string: the keys of an object are strings",
		reflect.TypeFor[struct{ C chan int }](): "field C: chan int has no JSON form",
	} {
		_, _, err := jsonschema.Of(in)
		assert.EqualError(t, err, want)
	}
}
