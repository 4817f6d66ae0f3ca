package clone_test

import (
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
