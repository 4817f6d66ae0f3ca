package announce

import "strings"

// stripEchoes removes the runtime's own events, and their stats lines, from a text into which a model has copied them: a
// person must not see them, not even indented, quoted or as code.
func stripEchoes(text string) string {
	if strings.Contains(text, fenceOpen) || strings.Contains(text, fenceClose) {
		text = stripEvents(text)
	}
	if strings.Contains(text, statsMark) {
		text = stripStats(text)
	}
	return text
}

// stripEvents removes events. One counts from a marker up to the end marker with the same code; without that, one whose marker
// starts a line counts to the end of the text. Of any other marker only the marker goes.
func stripEvents(text string) string {
	var out strings.Builder
	ends := lastEnds(text)
	for from := 0; from < len(text); {
		i := strings.Index(text[from:], "<<<")
		if i < 0 {
			out.WriteString(text[from:])
			break
		}
		at := from + i
		marker, isOpen := markerAt(text[at:])
		if marker == "" {
			out.WriteString(text[from : at+1])
			from = at + 1
			continue
		}
		end := at + len(marker)
		line := from + 1 + strings.LastIndexByte(text[from:at], '\n')
		startsLine := line == 0 || text[line-1] == '\n'
		switch {
		case isOpen && startsLine && unquote(text[line:at]) == "":
			out.WriteString(text[from:line])
			from = eventEnd(text, end, marker)
		case isOpen && ends[closing(marker)] >= end:
			out.WriteString(text[from:at])
			from = eventEnd(text, end, marker)
		default:
			out.WriteString(text[from:at])
			from = end
		}
	}
	return out.String()
}

// lastEnds returns where each end marker stands last, so that looking for one does not read the text again.
func lastEnds(text string) map[string]int {
	ends := make(map[string]int)
	for at := 0; ; at++ {
		i := strings.Index(text[at:], fenceClose)
		if i < 0 {
			return ends
		}
		at += i
		if marker, isOpen := markerAt(text[at:]); !isOpen && marker != "" {
			ends[marker] = at
		}
	}
}

// markerAt returns the marker that a text starts with, with its code and the end of the fence if these are there.
func markerAt(text string) (marker string, isOpen bool) {
	for _, start := range [...]string{fenceOpen, fenceClose} {
		if !strings.HasPrefix(text, start) {
			continue
		}
		line := text[:min(len(text), len(start)+maxNonce+len(fenceEnd))]
		line = line[:lineEnd(line, 0)]
		if i := strings.Index(line, fenceEnd); i >= 0 {
			return line[:i+len(fenceEnd)], start == fenceOpen
		}
		return start, start == fenceOpen
	}
	return "", false
}

// eventEnd returns where the event ends whose opening marker ends at a byte, with what is left of the last line if nobody
// reads it.
func eventEnd(text string, at int, marker string) int {
	last := closing(marker)
	i := strings.Index(text[at:], last)
	if i < 0 {
		return len(text)
	}
	at += i + len(last)
	if line := lineEnd(text, at); unquote(text[at:line]) == "" {
		return min(line+1, len(text))
	}
	return at
}

// closing returns the marker that ends the event which another one opens.
func closing(marker string) string { return fenceClose + strings.TrimPrefix(marker, fenceOpen) }

func stripStats(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(unquote(line), statsStart) || !strings.Contains(line, statsMark) {
			out.WriteString(line)
		}
	}
	return out.String()
}

// unquote removes what a quoting model puts around a line.
func unquote(line string) string { return strings.Trim(line, "> |`*\t\r\n") }
