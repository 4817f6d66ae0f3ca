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
	common struct {
		ID string `json:"id"`
	}
	shelf struct {
		common
		Books  []book          `json:"books" doc:"what stands on it"`
		Labels map[string]bool `json:"labels,omitempty"`
	}
	book struct {
		Title   string  `json:"title"`
		Pages   *int    `json:"pages"`
		Price   float64 `json:",omitzero"`
		Hidden  string  `json:"-"`
		private string
	}
	node struct {
		Next *node
	}
	list   []list
	table  map[string]table
	inside struct{ *inside }
	twice  struct {
		A, B []common
		common
	}
)

func TestOf(t *testing.T) {
	t.Parallel()
	_ = book{private: ""}
	const commonSchema = `{"type":"object","properties":{"id":{"type":"string"}},"required":["id"],"additionalProperties":false}`
	for in, want := range map[any]string{
		"":                   `{"type":"string"}`,
		true:                 `{"type":"boolean"}`,
		int8(0):              `{"type":"integer"}`,
		time.Second:          `{"type":"integer"}`,
		float32(0):           `{"type":"number"}`,
		time.Time{}:          `{"type":"string","format":"date-time"}`,
		netip.Addr{}:         `{"type":"string"}`,
		[2]byte{}:            `{"type":"array","items":{"type":"integer"}}`,
		new(json.Number):     `{"type":"string"}`,
		new([]byte):          `{"type":"string","format":"byte"}`,
		new([]any):           `{"type":"array","items":{}}`,
		new([][]int):         `{"type":"array","items":{"type":"array","items":{"type":"integer"}}}`,
		new(map[string]*int): `{"type":"object","additionalProperties":{"type":"integer"}}`,
		new(json.RawMessage): `{}`,
		common{}:             commonSchema,
		new(twice): `{"type":"object","properties":{"A":{"type":"array","items":` + commonSchema + `},"B":{"type":"array","items":` + commonSchema +
			`},"id":{"type":"string"}},"required":["A","B","id"],"additionalProperties":false}`,
		new(shelf): `{"type":"object","properties":{"id":{"type":"string"},"books":{"type":"array","description":"what stands on it","items":` +
			`{"type":"object","properties":{"title":{"type":"string"},"pages":{"type":"integer"},"Price":{"type":"number"}},` +
			`"required":["title"],"additionalProperties":false}},"labels":{"type":"object","additionalProperties":{"type":"boolean"}}},` +
			`"required":["id","books"],"additionalProperties":false}`,
	} {
		got, err := jsonschema.Of(reflect.TypeOf(in))
		require.NoError(t, err, "%T", in)
		assert.Equal(t, want, string(got), "%T", in)
	}
	got, err := jsonschema.For[common]()
	require.NoError(t, err)
	assert.Equal(t, commonSchema, string(got))
}

// A type that holds itself in any way is refused, and not walked for ever.
func TestOfRefuses(t *testing.T) {
	t.Parallel()
	for in, want := range map[reflect.Type]string{
		reflect.TypeFor[node]():                 "field Next: jsonschema_test.node holds itself",
		reflect.TypeFor[list]():                 "jsonschema_test.list holds itself",
		reflect.TypeFor[table]():                "jsonschema_test.table holds itself",
		reflect.TypeFor[inside]():               "jsonschema_test.inside holds itself",
		reflect.TypeFor[map[int]string]():       "map[int]string: the keys of an object are strings",
		reflect.TypeFor[struct{ C chan int }](): "field C: chan int has no JSON form",
	} {
		_, err := jsonschema.Of(in)
		assert.EqualError(t, err, want)
	}
}
