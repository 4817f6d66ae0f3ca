package load_test

import (
	"fmt"
	"strings"

	"github.com/offshoot-sdk/offshoot/session/internal/load"
)

// Two processes have noted what became of their slots.
func ExampleReadUse() {
	u, err := load.ReadUse(strings.NewReader(`0 given left one.
10000000 begun left .
20000000 given right two.
30000000 begun right .
40000000 ended left .
50000000 freed left one.
`))
	fmt.Println(u.Most, "turns at once", err)
	// Output: 2 turns at once <nil>
}
