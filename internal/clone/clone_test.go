package clone_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/offshoot-sdk/offshoot/internal/clone"
)

type rule struct {
	Names  []string
	Groups map[string][]string
	Inner  *rule
	Flag   *bool
	Pair   [2][]int
	At     time.Time
	F      func() int
}

// A copy is equal to the original, and no change of the original reaches it.
func TestCopySharesNothing(t *testing.T) {
	build := func() rule {
		yes := true
		return rule{
			Names:  []string{"a", "b"},
			Groups: map[string][]string{"g": {"x"}, "empty": {}, "nil": nil},
			Inner:  &rule{Names: []string{}},
			Flag:   &yes,
			Pair:   [2][]int{{1}, nil},
			At:     time.Unix(1, 2),
		}
	}
	original := build()
	c := clone.Of(original)
	assert.Equal(t, build(), c)
	original.Names[0] = "changed"
	original.Groups["g"][0] = "changed"
	original.Groups["new"] = nil
	original.Inner.Names = append(original.Inner.Names, "changed")
	*original.Flag = false
	original.Pair[0][0] = 7
	assert.Equal(t, build(), c)
}

func TestCopyKeepsNilAndFunctions(t *testing.T) {
	assert.Equal(t, rule{}, clone.Of(rule{}))
	assert.Nil(t, clone.Of[[]string](nil))
	c := clone.Of(rule{F: func() int { return 3 }})
	assert.Equal(t, 3, c.F())
}

// Each thing that a copy keeps counts.
func TestBytes(t *testing.T) {
	type opaque struct {
		s string
		p *[100]int
	}
	type all struct {
		Text  string
		List  []string
		Map   map[string]int64
		To    *[10]int64
		Pair  [2]string
		Named opaque
		F     func()
	}
	empty := clone.Bytes(all{})
	assert.Equal(t, int(reflect.TypeFor[all]().Size()), empty)
	for name, c := range map[string]struct {
		v    all
		more int
	}{
		"text":    {all{Text: "abc"}, 3},
		"list":    {all{List: []string{"abc", "d"}}, 4 + 2*int(reflect.TypeFor[string]().Size())},
		"map":     {all{Map: map[string]int64{"ab": 1}}, 2 + 8 + int(reflect.TypeFor[string]().Size())},
		"pointer": {all{To: new([10]int64)}, 80},
		"array":   {all{Pair: [2]string{"a", "bc"}}, 3},
		"opaque":  {all{Named: opaque{s: "abc", p: new([100]int)}}, 3},
		"func":    {all{F: func() {}}, 0},
	} {
		assert.Equal(t, empty+c.more, clone.Bytes(c.v), name)
	}
}
