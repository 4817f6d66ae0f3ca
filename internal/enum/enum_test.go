package enum_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/internal/enum"
)

type size uint8

var sizes = []string{"small", "large"}

func TestWordsComeBack(t *testing.T) {
	for i, word := range sizes {
		text, err := enum.Marshal(sizes, "shop", "size", size(i))
		require.NoError(t, err)
		assert.Equal(t, word, string(text))
		assert.Equal(t, word, enum.String(sizes, "Size", size(i)))
		var back size
		require.NoError(t, enum.Unmarshal(sizes, "shop", "size", text, &back))
		assert.Equal(t, size(i), back)
	}
}

func TestUnknownIsNamed(t *testing.T) {
	assert.Equal(t, "Size(2)", enum.String(sizes, "Size", size(2)))
	_, err := enum.Marshal(sizes, "shop", "size", size(2))
	require.EqualError(t, err, "shop: 2 is not a size")
	v := size(1)
	err = enum.Unmarshal(sizes, "shop", "size", []byte("tiny"), &v)
	require.EqualError(t, err, `shop: unknown size "tiny", want one of ["small" "large"]`)
	assert.Equal(t, size(1), v)
}

// Every package reads words in any case of ASCII, and nothing else that looks alike.
func TestCase(t *testing.T) {
	var v size
	require.NoError(t, enum.Unmarshal(sizes, "shop", "size", []byte("LaRGe"), &v))
	assert.Equal(t, size(1), v)
	for _, text := range []string{"", "larg", "larges", " large", "large\n", "\u017fmall"} {
		assert.Error(t, enum.Unmarshal(sizes, "shop", "size", []byte(text), &v), "%q", text)
	}
}
