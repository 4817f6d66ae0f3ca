package secret

import "strings"

// A secretPrefix says how the tokens of a service begin.
type secretPrefix struct {
	prefix string
	least  int // bytes of the word that must follow the prefix
}

// secretPrefixes are the prefixes of well-known services, by their first byte.
var secretPrefixes = [256][]secretPrefix{
	'A': {{"AIza", 20}, {"AKIA", 16}, {"ASIA", 16}},
	'G': {{"GOCSPX-", 20}},
	'L': {{"LTAI", 12}},
	'S': {{"SG", 0}}, // has several parts, see dottedEnd
	'd': {{"dop_v1_", 10}, {"dckr_pat_", 10}, {"dp.pt.", 10}},
	'e': {{"eyJ", 8}}, // has several parts, see dottedEnd
	'f': {{"fw_", 20}},
	'g': {
		{"ghp_", 20},
		{"gho_", 10},
		{"ghu_", 10},
		{"ghs_", 10},
		{"ghr_", 10},
		{"github_pat_", 20},
		{"gsk_", 10},
		{"glpat-", 10},
		{"gldt-", 10},
		{"glptt-", 10},
		{"glrt-", 10},
	},
	'h': {{"hf_", 20}},
	'l': {{"lin_api_", 10}},
	'n': {{"npm_", 10}, {"ntn_", 20}},
	'p': {{"pplx-", 10}, {"pypi-", 16}},
	'r': {{"rk_live_", 8}, {"rk_test_", 8}, {"r8_", 20}},
	's': {{"sk-", 8}, {"sk_live_", 8}, {"sk_test_", 8}, {"shpat_", 16}, {"shpss_", 16}},
	't': {{"tvly-", 10}},
	'x': {
		{"xoxb-", 10},
		{"xoxa-", 10},
		{"xoxp-", 10},
		{"xoxr-", 10},
		{"xoxs-", 10},
		{"xoxe-", 10},
		{"xapp-", 10},
		{"xai-", 20},
	},
	'y': {{"ya29", 0}}, // has several parts, see dottedEnd
}

// tokenEnd returns where the token of a well-known service ends that begins with the word from
// start to end. It returns 0 if the word does not begin such a token.
func (r *reader) tokenEnd(start, end int) int {
	word := r.S[start:end]
	for _, p := range secretPrefixes[word[0]] {
		if !strings.HasPrefix(word, p.prefix) || len(word)-len(p.prefix) < p.least {
			continue
		}
		switch p.prefix {
		case "eyJ", "SG", "ya29":
			return r.dottedEnd(end)
		case "AKIA", "ASIA":
			if len(word) != 20 || strings.ToUpper(word) != word {
				continue
			}
		}
		return end
	}
	return 0
}

// dottedEnd returns where a token ends that consists of parts with dots between them and whose
// first part ends at a position. The parts after the first have at least eight bytes each, and at
// most four of them count. It returns 0 if not even one follows.
func (r *reader) dottedEnd(end int) int {
	parts := 0
	for ; parts < 4 && r.Byte(end) == '.'; parts++ {
		next := r.wordEnd(end + 1)
		if next-end-1 < 8 {
			break
		}
		end = next
	}
	if parts == 0 {
		return 0
	}
	return end
}

// botToken returns where the id of a Telegram bot starts in a word that is six or more digits,
// alone or after "bot". It returns -1 for any other word.
func botToken(word string) int {
	from := 0
	if strings.HasPrefix(word, "bot") {
		from = len("bot")
	}
	if len(word)-from < 6 {
		return -1
	}
	for i := from; i < len(word); i++ {
		if word[i] < '0' || word[i] > '9' {
			return -1
		}
	}
	return from
}

// wordEnd returns where the word ends that starts at a position; see visitWord.
func (r *reader) wordEnd(at int) int {
	for !r.Ended(at) && isWordByte(r.S[at]) {
		at++
	}
	return at
}

// isWordByte reports whether c belongs to a word.
func isWordByte(c byte) bool { return isNameByte[c] || c == '-' }

// isName reports whether a text is one word.
func isName(s string) bool {
	for i := range len(s) {
		if !isWordByte(s[i]) {
			return false
		}
	}
	return true
}

// bearerEnd returns where the bearer token ends that starts at a position.
func (r *reader) bearerEnd(at int) int {
	for !r.Ended(at) && (isNameByte[r.S[at]] || strings.IndexByte("-.~+/=", r.S[at]) >= 0) {
		at++
	}
	return at
}

// isReference reports whether a value is the name of a variable and not a secret: $NAME or
// ${NAME}, in upper case and of at most 64 bytes.
func isReference(s string) bool {
	name, ok := strings.CutPrefix(s, "$")
	if !ok {
		return false
	}
	if inner, braced := strings.CutPrefix(name, "{"); braced {
		if name, ok = strings.CutSuffix(inner, "}"); !ok {
			return false
		}
	}
	if name == "" || len(name) > 64 || name != strings.ToUpper(name) {
		return false
	}
	return isName(name) && strings.IndexByte(name, '-') < 0
}

// isHeader reports whether a word is the name of an HTTP header that carries credentials, in any
// letter case.
func isHeader(word string) bool {
	switch len(word) {
	case len("cookie"), len("set-cookie"), len("authorization"), len("proxy-authorization"):
	default:
		return false
	}
	for _, name := range [...]string{"cookie", "set-cookie", "authorization", "proxy-authorization"} {
		if strings.EqualFold(word, name) {
			return true
		}
	}
	return false
}

// secretNames are the last words of names whose values are secret, by the last letter of the word
// in lower case.
var secretNames = [256][]string{
	'd': {"password", "passwd"},
	'e': {"passphrase"},
	'n': {"token"},
	's': {"_pass"},
	't': {"secret"},
	'y': {"key"},
}

// joinedNames are such words that consist of two without a boundary between them.
var joinedNames = []string{
	"apikey", "secretkey", "privatekey", "accesskey", "authtoken", "accesstoken", "refreshtoken",
}

// isSecretName reports whether the last word of a name says that its value is secret. A word
// begins after '_' or '-', or where an upper-case letter follows a lower-case letter or a digit.
// So apiKey is such a name; MONKEY and keyboard are not, and neither is sessionKey, which names a
// session.
func isSecretName(name string) bool {
	const names = "sessionkey"
	if n := len(name) - len(names); n >= 0 && strings.EqualFold(name[n:], names) {
		return false
	}
	for _, word := range secretNames[name[len(name)-1]|0x20] {
		n := len(name) - len(word)
		if n < 0 || !strings.EqualFold(name[n:], word) {
			continue
		}
		if n == 0 || word[0] == '_' || startsWord(name, n) {
			return true
		}
	}
	for _, word := range joinedNames {
		n := len(name) - len(word)
		if n >= 0 && strings.EqualFold(name[n:], word) && (n == 0 || startsWord(name, n)) {
			return true
		}
	}
	return false
}

// startsWord reports whether a word begins at name[at]. at must not be 0.
func startsWord(name string, at int) bool {
	before, first := name[at-1], name[at]
	if before == '_' || before == '-' {
		return true
	}
	isUpper := first >= 'A' && first <= 'Z'
	return isUpper && (before >= 'a' && before <= 'z' || before >= '0' && before <= '9')
}
