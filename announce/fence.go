package announce

import "strings"

// What the runtime's own texts start with. A rendering is made of these and an echo is recognised by them.
const (
	fenceOpen  = "<<<completion "
	fenceClose = "<<<end of completion "
	fenceEnd   = ">>>"

	statsStart = "Stats: runtime "
	statsMark  = " • sessionKey "

	maxNonce = 64 // bytes
)

// cleanNonce keeps what cannot end a line or a fence.
func cleanNonce(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == '-' || r < 0x80 && isName[byte(r)] {
			return r
		}
		return -1
	}, s)
	return s[:min(len(s), maxNonce)]
}
