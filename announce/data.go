package announce

// AsData renders a text for a model as data: inside the fence of an event, behind bars. The lines
// before it are the runtime's own words; they must not have line breaks. A line of the text cannot
// leave the fence or look like the runtime's words: each stands behind a bar, invisible characters
// are dropped, and "[…]" replaces the nonce. Sanitize removes the whole where a model repeats it.
// Of the nonce only the letters and digits of ASCII, '-' and '_' count, at most 64 of them.
func AsData(nonce string, lines []string, data string) string {
	r := renderer{nonce: cleanNonce(nonce)}
	r.b.Grow(len(data) + len(data)/16 + 512)
	r.line(fenceOpen + r.nonce + fenceEnd)
	for _, line := range lines {
		r.line(line)
	}
	if data != "" {
		r.data(data)
	}
	r.b.WriteString(fenceClose + r.nonce + fenceEnd)
	return r.b.String()
}
