package agentctx

import (
	"fmt"
	"slices"
)

// marshalName is MarshalText for the enumerations of this package.
func marshalName(kind string, names []string, i int) ([]byte, error) {
	if i >= len(names) {
		return nil, fmt.Errorf("agentctx: %s(%d) has no name", kind, i)
	}
	return []byte(names[i]), nil
}

// unmarshalName is UnmarshalText for the enumerations of this package.
func unmarshalName(kind string, names []string, text []byte) (int, error) {
	if i := slices.Index(names, string(text)); i >= 0 {
		return i, nil
	}
	return 0, fmt.Errorf("agentctx: unknown %s %q, want one of %q", kind, text, names)
}
