package announce

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// FormatDuration returns d in its two largest units: "12s", "5m12s", "1h30m", "1d1h". It rounds d
// to whole seconds first, and cuts off what the two units cannot show. Zero and less is "n/a".
func FormatDuration(d time.Duration) string {
	if d <= 0 {
		return "n/a"
	}
	seconds := int64(d / time.Second)
	if d%time.Second >= time.Second/2 {
		seconds++
	}
	minutes, hours := seconds/60, seconds/3600
	switch {
	case hours >= 24:
		return formatPair(hours/24, 'd', hours%24, 'h')
	case hours > 0:
		return formatPair(hours, 'h', minutes%60, 'm')
	case minutes > 0:
		return formatPair(minutes, 'm', seconds%60, 's')
	}
	return strconv.FormatInt(seconds, 10) + "s"
}

// formatPair returns two numbers with their units, such as "5m12s".
func formatPair(a int64, unitA byte, b int64, unitB byte) string {
	out := append(strconv.AppendInt(nil, a, 10), unitA)
	return string(append(strconv.AppendInt(out, b, 10), unitB))
}

// FormatTokens returns a count of tokens: "999", "1.0k", "12.3m". A count of 1,000 and more has one
// decimal and a unit, k for thousands or m for millions. Less than zero counts as zero.
func FormatTokens(n int64) string {
	switch {
	case n <= 0:
		return "0"
	case n < 1000:
		return strconv.FormatInt(n, 10)
	case n < 999_950: // from here on, thousands would round to 1000.0k, which is 1.0m
		return formatFixed(float64(n)/1e3, 1) + "k"
	}
	return formatFixed(float64(n)/1e6, 1) + "m"
}

// FormatUSD returns an amount of US dollars: "$1.23", "$0.0042", "-$2.00". An amount of a cent
// and more has two decimals, a smaller one four. Infinity and what is not a number give "".
func FormatUSD(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return ""
	}
	digits := 4
	if math.Abs(v) >= 0.01 {
		digits = 2
	}
	text := formatFixed(math.Abs(v), digits)
	if v < 0 && strings.Trim(text, "0.") != "" {
		return "-$" + text
	}
	return "$" + text
}

// formatFixed returns v, which must not be negative, with this many decimals. It rounds up a v
// that lies exactly in the middle; strconv.FormatFloat alone would round such a v to the even
// digit.
func formatFixed(v float64, digits int) string {
	scale := 2 * math.Pow10(digits)
	if n := math.Round(v * scale); math.Mod(n, 2) == 1 && math.FMA(v, scale, -n) == 0 {
		v = math.Nextafter(v, math.Inf(1))
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
}
