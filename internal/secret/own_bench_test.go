package secret_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/offshoot-sdk/offshoot/internal/secret"
)

// BenchmarkOwn measures what 100 values cost beside what is known without them, the floor.
func BenchmarkOwn(b *testing.B) {
	var values []string
	for i := range 100 {
		values = append(values, fmt.Sprintf("s%02dcret-%d-value%d", i, i*7919, i))
	}
	own := secret.NewOwn(values, nil)
	for name, text := range map[string]string{
		"prose":   strings.Repeat("the slow secret brown fox, said he; and so on\n", 2000),
		"JSON":    strings.Repeat(`{\"a\":\"s\u00e4b\\n\"},`, 4000),
		"base64":  strings.Repeat("c2VjcmV0LXZhbHVlLXBhcnQtcXdlcnR5", 2000),
		"percent": strings.Repeat("%73%74+%25s", 5000),
	} {
		for how, mask := range map[string]func(string) string{"own": own.Mask, "floor": secret.Mask} {
			b.Run(name+"/"+how, func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(text)))
				for b.Loop() {
					mask(text)
				}
			})
		}
	}
}
