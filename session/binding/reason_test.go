package binding_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/session/binding"
)

func TestReasonWords(t *testing.T) {
	seen := make(map[string]bool)
	for r := binding.ReasonManual; r <= binding.ReasonBindFailed; r++ {
		text, err := r.MarshalText()
		require.NoError(t, err)
		assert.Equal(t, r.String(), string(text))
		assert.False(t, seen[r.String()])
		seen[r.String()] = true
		var back binding.Reason
		require.NoError(t, back.UnmarshalText(text))
		assert.Equal(t, r, back)
	}
	assert.Len(t, seen, 14)
	beyond := binding.ReasonBindFailed + 1
	_, err := beyond.MarshalText()
	require.EqualError(t, err, "binding: 14 is not a reason")
	assert.Equal(t, "Reason(14)", beyond.String())
	require.ErrorContains(
		t, beyond.UnmarshalText([]byte("nonsense")), `binding: unknown reason "nonsense"`,
	)
}
