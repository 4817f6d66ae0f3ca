package agentctx_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// A numberedCase is a row of a list of cases in the field's reference: what is given, and what is
// expected of it. A row that another test of this package drives runs that one.
type numberedCase struct {
	id, given, expect string
	differs           string // what of it is otherwise here, and why
	elsewhere         string // the test of another package that has it; then run is nil
	run               func(t *testing.T)
}

// runNumbered runs the n cases of a family in their order.
func runNumbered(t *testing.T, family string, n int, cases []numberedCase) {
	t.Helper()
	for i, c := range cases {
		require.Equal(t, fmt.Sprint(family, i+1), c.id)
		require.NotEqual(t, c.run == nil, c.elsewhere == "", c.id)
		if c.run != nil {
			t.Run(c.id+" "+c.given, c.run)
		}
	}
	require.Len(t, cases, n)
}
