package announce_test

import (
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/offshoot-sdk/offshoot/announce"
	"github.com/offshoot-sdk/offshoot/internal/vectors"
)

func TestFormatDuration(t *testing.T) {
	t.Parallel()
	for ms, want := range map[int64]string{
		312000: "5m12s", 0: "n/a", -5: "n/a", 499: "0s", 500: "1s", 1500: "2s", 59499: "59s", 59500: "1m0s",
		3599500: "1h0m", 3661000: "1h1m", 86399499: "23h59m", 86399500: "1d0h", 90061000: "1d1h",
	} {
		require.Equal(t, want, announce.FormatDuration(time.Duration(ms)*time.Millisecond), "%d ms", ms)
	}
	require.Equal(t, "106751d23h", announce.FormatDuration(math.MaxInt64))
	require.Equal(t, "n/a", announce.FormatDuration(math.MinInt64))
}

func TestFormatTokens(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{
		-3: "0", 0: "0", 999: "999", 1000: "1.0k", 1049: "1.0k", 1050: "1.1k", 1250: "1.3k", 12000: "12.0k", 197000: "197.0k",
		999949: "999.9k", 999950: "1.0m", 1e6: "1.0m", 1234e6: "1234.0m",
	} {
		require.Equal(t, want, announce.FormatTokens(n), "%d", n)
	}
}

func TestFormatUSD(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{
		0: "$0.0000", 0.0042: "$0.0042", 0.00995: "$0.0100", 0.01: "$0.01", 0.999: "$1.00", 1.234: "$1.23", 0.125: "$0.13",
		-2: "-$2.00", -0.00001: "$0.0000", math.Inf(1): "", math.Inf(-1): "",
	} {
		require.Equal(t, want, announce.FormatUSD(v), "%g", v)
	}
	require.Empty(t, announce.FormatUSD(math.NaN()))
}

func TestVectorsFormat(t *testing.T) {
	t.Parallel()
	type row struct {
		Kind string
		In   float64
		Text string
	}
	const days, unit, sign = "two units, and days are one", "what rounds to 1000.0k is 1.0m", "the sign precedes the currency, and the amount decides the digits"
	known := differences{
		"duration 86399999": {"1d0h", days}, "duration 86400000": {"1d0h", days}, "duration 90000000": {"1d1h", days},
		"duration 172800000": {"2d0h", days}, "duration 604800000": {"7d0h", days}, "duration 31536000000": {"365d0h", days},
		"tokens 999950": {"1.0m", unit}, "tokens 999999": {"1.0m", unit},
		"usd -0.5": {"-$0.50", sign}, "usd -2": {"-$2.00", sign},
		"usd 1000000000000000000000": {"$1000000000000000000000.00", "amounts have no exponent"},
	}
	for _, r := range vectors.Read[row](t, "format.json", 107) {
		var got string
		switch r.Kind {
		case "duration": // in milliseconds
			got = announce.FormatDuration(time.Duration(r.In * 1e6))
		case "tokens":
			got = announce.FormatTokens(int64(r.In))
		case "usd":
			got = announce.FormatUSD(r.In)
		default:
			t.Fatalf("unknown kind %q", r.Kind)
		}
		known.check(t, r.Kind+" "+strconv.FormatFloat(r.In, 'f', -1, 64), r.Text, got)
	}
}
