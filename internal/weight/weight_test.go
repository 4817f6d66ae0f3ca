package weight

import (
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type inner struct {
	Text string
	Raw  []byte
}

type outer struct {
	Name     string
	Inner    inner
	List     []inner
	Ptr      *inner
	ByName   map[string]inner
	Names    []string
	Raw      [][10]int8
	FS       fs.FS
	Call     func()
	Duration time.Duration
	hidden   string
}

func TestCheck(t *testing.T) {
	long := strings.Repeat("x", 11)
	limits := Limits{Each: 10, All: 200}
	require.Nil(t, Check(outer{Name: long[:10], hidden: long}, limits))
	for path, v := range map[string]outer{
		"Name":             {Name: long},
		"Inner.Raw":        {Inner: inner{Raw: []byte(long)}},
		"List[1].Text":     {List: []inner{{}, {Text: long}}},
		"Ptr.Text":         {Ptr: &inner{Text: long}},
		"ByName[...]":      {ByName: map[string]inner{long: {}}},
		`ByName["a"].Text`: {ByName: map[string]inner{"a": {Text: long}}},
		"Names[0]":         {Names: []string{long}},
	} {
		err := Check(v, limits)
		require.NotNil(t, err, path)
		require.Equal(t, &Error{Path: path, Bytes: 11, Limit: 10}, err)
		require.EqualError(t, err, "it has 11 bytes, the limit is 10")
	}
	err := Check(&outer{Raw: make([][10]int8, 21)}, limits)
	require.EqualError(t, err, "its parts have 210 bytes together, the limit is 200")
	err = Check([]string{long[:10], long[:9]}, Limits{Each: 10, All: 18})
	require.Empty(t, err.Path)
}
