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

// BenchmarkAlike measures what 100 values that begin alike cost in texts of what they begin with,
// beside as many of which one does, the floor.
func BenchmarkAlike(b *testing.B) {
	var alike, apart []string
	for i := range 100 {
		alike = append(alike, fmt.Sprintf("sk-proj-%s%dx", strings.Repeat("0", i%20), i*7919))
		apart = append(apart, fmt.Sprintf("%02dk-%d-sk-proj-%d", i, i*7919, i))
	}
	apart[0] = alike[0]
	for name, piece := range map[string]string{
		"as it is": "sk-proj-000", "lines": "s\nk\n-\np\nr\no\nj\n-\n0\n",
		"escaped": `\u0073\u006b\u002d\u0070\u0072\u006f`, "no width": "s\u200bk\u200b-\u200bp\u200br",
	} {
		text := strings.Repeat(piece, 32<<10/len(piece))
		for how, values := range map[string][]string{"alike": alike, "floor": apart} {
			own := secret.NewOwn(values, nil)
			b.Run(name+"/"+how, func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(text)))
				for b.Loop() {
					own.Mask(text)
				}
			})
		}
	}
}
