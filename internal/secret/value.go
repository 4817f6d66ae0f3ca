package secret

import (
	"encoding/base64"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A form is how a value stands behind its name.
type form struct {
	name     string
	is       strength
	op       op
	quoted   bool
	tight    bool   // nothing stands between name, operator and value
	follower byte   // the byte behind the value
	rest     string // the rest of its line, or some of it
}

// isSecret reports whether a value in that form is one that must be masked.
func (f *form) isSecret(v string) bool {
	v = strings.TrimSpace(withoutMarks(plain(v)))
	if v == "" || isMask(v) || isReference(v) || isFiller(v) || isPlaceholder(v) || hasMask(v) {
		return false
	}
	if utf8.RuneCountInString(v) != len(v) && !isASCII(v) {
		if f.op == opColon && !f.quoted && isForeignWord(v) {
			return false
		}
		return f.is >= secretName && (f.quoted || f.op == opEquals || strings.IndexByte(v, ' ') < 0)
	}
	if f.is == uuidName {
		return isUUID(v)
	}
	isEnv := isUpperName(f.name) && f.op == opEquals && f.tight
	switch lower := strings.ToLower(v); {
	case constants[lower]:
		return false
	case f.is == messageName:
		return looksChosen(v)
	case isEnv && f.is == weakName && !strings.EqualFold(f.name, "pass"):
		return !isNumber(v) && !isPath(v)
	case isEnv && f.is != listName:
		return f.is == passwordTag || !isCount(v) && !isPath(v)
	case fillWords[lower], strings.EqualFold(v, f.name), isPath(v) && f.is != passwordTag:
		return false
	case isAddress(v), f.isCode(v) && !f.quoted:
		return false
	case isNumber(v):
		return f.is == passwordTag && len(v) >= 4 && (f.quoted || f.op == opEquals ||
			f.endsLine()) ||
			len(v) >= 20
	case f.is == weakName || f.is == listName:
		return looksSecret(v)
	case strings.IndexByte(v, ' ') >= 0:
		return !isProse(v)
	}
	return f.isWordSecret(v)
}

// isForeignWord reports whether a value is one word of letters alone, in any script, such as what a
// form says about a field. A long one may be a passphrase.
func isForeignWord(v string) bool {
	const most = 16 // runes
	v = strings.TrimRight(v, ".,;:!?。！？，、")
	return utf8.RuneCountInString(v) < most && strings.IndexFunc(v, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsMark(r)
	}) < 0
}

// withoutMarks returns a value in which the mask of a known token has no ellipsis: what is around
// it was weighed beside the token, and was found to be none.
func withoutMarks(v string) string {
	const mark = "…"
	if strings.HasPrefix(v, mark) || isMask(v) {
		return v
	}
	from := 0
	for {
		i := strings.Index(v[from:], mark)
		if i < 0 {
			return v
		}
		from += i
		at := from
		for range maskHead {
			_, size := utf8.DecodeLastRuneInString(v[:at])
			at -= size
		}
		if from-at == maskHead && beginsFamily(v[at:from], 0, maskHead) {
			v = v[:from] + v[from+len(mark):]
		} else {
			from += len(mark)
		}
	}
}

// isWordSecret is isSecret for a value without blanks whose name is surely that of a secret.
func (f *form) isWordSecret(v string) bool {
	if f.op == opIs {
		return isMixed(v)
	}
	if f.op == opComma && !f.quoted {
		return looksSecret(v) && hasDense(v)
	}
	if f.quoted {
		return f.op != opComma || looksSecret(v) || f.is == passwordTag && isMixed(v)
	}
	if isMixed(v) {
		return !isCount(v) || f.is == passwordTag
	}
	if isIdentifier(v) && f.is == passwordTag && len(v) < 4 {
		return f.tight
	}
	switch f.op {
	case opEquals:
		if f.tight {
			return f.follower != ')' && f.follower != ',' || len(v) >= 16
		}
		return len(v) >= 16 && !isCamel(v)
	case opColon:
		if len(v) >= 16 && !isCamel(v) {
			return true
		}
		return f.is == passwordTag && f.endsLine() && !isTitle(v) || f.tight &&
			f.follower != ',' && f.endsLine()
	case opTag:
		return true
	case opBlank:
		return true
	default:
		return false
	}
}

// endsLine reports whether nothing but blanks follows the value on its line.
func (f *form) endsLine() bool {
	rest := strings.TrimLeft(f.rest, " \t\r,;\"'`*_")
	return rest == "" || rest[0] == '\n'
}

// constants are values that are never secret.
var constants = words(`null nil none undefined true false yes no on off nan inf required optional
	string str int integer bool boolean bytes number any object array text varchar char uuid float
	redacted masked hidden filtered removed censored omitted changeme change_me change-me
	placeholder todo tbd fixme n/a na unset empty <nil> default example sample dummy secretref
	valuefrom secretkeyref fromenv your insert replace xxx xx`)

// fillWords are values that are words about a secret, or of a program, in lower case.
var fillWords = words(`the a an this that these it is are was were be been has have had of for to in
	at by with from and or not but if then when where which who what how why your my our their its
	one two three missing invalid incorrect wrong expired unknown available disabled enabled needed
	provided given here value values type types name id key keys token tokens secret secrets
	password passwords passwd username user email login stdin prompt input env file vault auto
	generated random basic bearer digest self this new await async func function lambda return
	const let var void error errors err ok failed success valid unexpected expected must should
	can may will would could cannot please enter choose use see below above none? null? interface
	struct map list dict set tuple option some result sessionkey description config settings
	credential credentials test-only readonly read write admin pair pairs strings only never always
	rotate rotated revoked leaked stolen lost found set unset changed updated created deleted stored
	encrypted hashed plain plaintext length size count limit min max unique primary foreign index
	erforderlich pflichtfeld falsch fehlt vergessen abgelaufen obligatoria obligatorio requerida
	requerido incorrecta incorrecto invalida invalido olvidada caducada obrigatoria incorreta
	requis requise obligatoire incorrect incorrecte oublie expire manquant obbligatoria errata
	scaduta dimenticata verplicht vereist onjuist verlopen vergeten wymagane haslo povinne zorunlu
	varchar(255) text? typed strength policy field column header cookie hash salt opaque public private`)

// words returns the set of words of a text.
func words(text string) map[string]bool {
	set := make(map[string]bool)
	for w := range strings.FieldsSeq(text) {
		set[w] = true
	}
	return set
}

// isFiller reports whether a text only stands for a value: one character over and over.
func isFiller(s string) bool {
	if len(s) < 3 {
		return strings.Trim(s, "*.-_") == ""
	}
	same := 0
	for i := range len(s) {
		if i > 0 && s[i] == s[i-1] {
			if same++; same >= leastFiller && isFillerByte(s[i]) {
				return true
			}
			continue
		}
		same = 0
	}
	return strings.Trim(s, "*.-_xX") == ""
}

// leastFiller is how often a byte must follow itself in what stands for a value.
const leastFiller = 5

// isFillerByte reports whether a byte, over and over, stands for a value.
func isFillerByte(c byte) bool { return strings.IndexByte("xX*.0#_-", c) >= 0 }

// isPlaceholder reports whether a value says what stands there, such as <token> or your-key-here.
func isPlaceholder(s string) bool {
	first, last := s[0], s[len(s)-1]
	switch {
	case len(s) > 64 || len(s) < 2:
		return false
	case first == '<' && (last == '>' || strings.IndexByte(s, '>') < 0),
		(first == '{' && last == '}' || first == '[' && last == ']') && isWordy(s[1:len(s)-1]),
		first == '%' && last == '%' && len(s) > 2,
		strings.HasPrefix(s, "{{"), strings.HasPrefix(s, "...") || strings.HasPrefix(s, "…"),
		strings.HasSuffix(s, "...") && len(s) < 16:
		return true
	}
	lower := strings.ToLower(s)
	for _, w := range [...]string{
		"your", "placeholder", "change", "replace", "example", "redacted", "insert", "enter-",
		"enter_", "dummy",
		"todo", "fake", "-here", "_here", "goes-here", "sample",
	} {
		if strings.Contains(lower, w) && isWordy(strings.ReplaceAll(lower, w, "word")) {
			return true
		}
	}
	return false
}

// isReference reports whether a value only says where the secret is: a variable, a command, a
// template, or a place in a store of secrets.
func isReference(s string) bool {
	switch s[0] {
	case '$':
		return isShellReference(s)
	case '%':
		return len(s) > 2 && s[len(s)-1] == '%' && isName(s[1:len(s)-1])
	case '@':
		return strings.HasPrefix(s, "@Microsoft.KeyVault(")
	case '!':
		return strings.HasPrefix(s, "!secret") || strings.HasPrefix(s, "!vault") ||
			strings.HasPrefix(s, "!Ref") || strings.HasPrefix(s, "!Sub") ||
			strings.HasPrefix(s, "!reference")
	case '`':
		return true
	case '*', '&':
		return len(s) > 1 && len(s) < 32 && isName(s[1:]) && !isMixed(s[1:])
	case '{':
		return strings.HasPrefix(s, "{{") || strings.HasPrefix(s, "{cipher}")
	}
	for _, p := range [...]string{
		"op://", "vault:", "ref+", "arn:aws:", "ENC[", "env:", "file:", "env(", "secret://",
		"secrets:", "projects/",
		"ssm:", "keyring:", "gsm:", "sm://", "awssm:", "secretsmanager:", "env.", "os.",
		"process.", "System.",
		"secrets.", "var.", "local.", "data.", "module.", "vault.", "config.", "settings.",
		"self.", "this.", "sops:",
	} {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}

// isShellReference reports whether a text that begins with '$' is a variable or a command.
func isShellReference(s string) bool {
	if len(s) < 2 {
		return true
	}
	switch s[1] {
	case '{':
		return strings.IndexByte(s, '}') > 0 || strings.IndexByte(s, ' ') < 0
	case '(':
		return true
	}
	name := s[1:]
	name = strings.TrimPrefix(name, "env:")
	if i := strings.IndexAny(name, "[-.{:"); i > 0 {
		name = name[:i]
	}
	if len(name) > 64 || !hasOnly(name, isNameByte) {
		return false
	}
	return name == strings.ToUpper(name) || isWordy(name)
}

// isCount reports whether a value is a number or a short number with a unit.
func isCount(s string) bool {
	if isNumber(s) {
		return len(s) < 16
	}
	i := 0
	for i < len(s) && (s[i] >= '0' && s[i] <= '9' || s[i] == '.' || s[i] == ',' || s[i] == '/') {
		i++
	}
	return i > 0 && len(s)-i <= 4 && len(s) <= 12 && hasOnly(s[i:], letters4)
}

var letters4 = letters("A-Za-z%+-")

// isNumber reports whether a text is a number.
func isNumber(s string) bool {
	has := false
	for i := range len(s) {
		switch c := s[i]; {
		case c >= '0' && c <= '9':
			has = true
		case c != '.' && c != ',' && c != '_':
			return false
		}
	}
	return has
}

// isPath reports whether a value is the path of a file, or of something like one.
func isPath(s string) bool {
	for _, p := range [...]string{"./", "../", "~/", "/", `C:\`, `.\`} {
		if strings.HasPrefix(s, p) {
			return len(s) < 2 || strings.ContainsAny(s[1:], "/.\\") && !hasDense(s)
		}
	}
	for _, ext := range [...]string{
		".pem", ".key", ".json", ".txt", ".yaml", ".yml", ".crt",
		".env", ".p12", ".jks",
	} {
		if strings.HasSuffix(s, ext) {
			return true
		}
	}
	return false
}

// isAddress reports whether a value is a URL, whose own secrets are masked on their own.
func isAddress(s string) bool {
	i := strings.Index(s, "://")
	return i > 0 && i < 20 && isName(strings.NewReplacer("+", "", ".", "").Replace(s[:i]))
}

// isCode reports whether the value is code, see isCode. A token with a bracket that is not closed
// on its line is none: no function is called so, and passwords have brackets.
func (f *form) isCode(v string) bool {
	if !isCode(v) {
		return false
	}
	i := strings.IndexAny(v, "([")
	if i < 0 {
		return true
	}
	closing := ")"
	if v[i] == '[' {
		closing = "]"
	}
	return strings.Contains(v[i:], closing) || strings.Contains(f.rest, closing) ||
		!hasDense(v[:i]) && (i > 0 || !hasDense(v))
}

// isCode reports whether a value without quotes is an expression of a program: a call, an index or
// a member.
func isCode(s string) bool {
	i := 0
	for i < len(s) && (isNameByte[s[i]] || s[i] == '.' || s[i] == ':' && i+1 < len(s) &&
		s[i+1] == ':') {
		if s[i] == ':' {
			i++
		}
		i++
	}
	name := s[:i]
	if i == 0 {
		return s[0] == '(' || s[0] == '[' || s[0] == '{'
	}
	if i < len(s) {
		switch s[i] {
		case '(', '[':
			return true
		case '<', '?', '!', '|':
			return isIdentifier(name) && len(name) < 24 && isWordy(name)
		}
		return false
	}
	name = strings.TrimRight(name, ".")
	return strings.IndexByte(name, '.') > 0 && isWordy(name) && !isMixed(name)
}

// isIdentifier reports whether a text can be the name of something in a program.
func isIdentifier(s string) bool {
	return s != "" && (s[0] < '0' || s[0] > '9') &&
		hasOnly(strings.ReplaceAll(s, ".", "_"), isNameByte)
}

// isCamel reports whether a text is several words, as a name has them.
func isCamel(s string) bool {
	return isWordy(s) && strings.ToLower(s) != s ||
		strings.IndexByte(s, '_') > 0 && isWordy(s)
}

// isTitle reports whether a text is a word with a capital letter, such as the name of a type.
func isTitle(s string) bool {
	return s[0] >= 'A' && s[0] <= 'Z' && len(s) > 1 && strings.ToLower(s[1:]) == s[1:]
}

// isMixed reports whether a text has letters beside digits or other characters, as words have not.
func isMixed(s string) bool {
	var letter, other bool
	for i := range len(s) {
		switch c := s[i]; {
		case c|0x20 >= 'a' && c|0x20 <= 'z':
			letter = true
		case c == '_' || c == '-' || c == '.' || c == ',' || c == ':' || c == ';' || c == '/' ||
			c == '(' || c == ')' ||
			c == '\'' || c == '"' || c == '>' || c == '<' || c == '`' || c == ']' || c == '[':
		default:
			other = true
		}
	}
	return letter && other
}

// isWordy reports whether a text consists of words, as a name or a path does: of parts of letters
// alone, with a number at the end of one at most.
func isWordy(s string) bool {
	part, digits := 0, 0
	short := 0
	end := func() bool {
		if part > 0 && part < 3 {
			short++
		}
		ok := digits <= 3 && (part >= 2 || part+digits == 0 || digits > 0 && part == 0)
		part, digits = 0, 0
		return ok
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= '0' && c <= '9':
			digits++
		case c|0x20 >= 'a' && c|0x20 <= 'z':
			isUpper := c < 'a'
			if digits > 0 || isUpper && i > 0 && s[i-1] >= 'a' {
				if !end() {
					return false
				}
			}
			part++
		case strings.IndexByte("_-./: ", c) >= 0:
			if !end() {
				return false
			}
		default:
			return false
		}
	}
	return end() && short <= 2
}

// hasDense reports whether a text has eight letters and digits in a row, with both among them, that
// are not a word with a number.
func hasDense(s string) bool {
	const least = 8
	for from := 0; from+least <= len(s); {
		last := from + least - 1 // of a part that begins at from
		for last >= from && alnum[s[last]] {
			last--
		}
		if last >= from {
			from = last + 1 // no part of that length has begun before
			continue
		}
		end := from + least
		for end < len(s) && alnum[s[end]] {
			end++
		}
		if part := s[from:end]; isMixed(part) && !isWordy(part) {
			return true
		}
		from = end + 1
	}
	return false
}

// countKinds returns how many small letters, capitals and digits of ASCII a text has.
func countKinds(s string) (lower, upper, digit int) {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= '0' && c <= '9':
			digit++
		case c >= 'a' && c <= 'z':
			lower++
		case c >= 'A' && c <= 'Z':
			upper++
		}
	}
	return lower, upper, digit
}

// looksRandom reports whether a text is letters and digits in a disorder that no name has.
func looksRandom(s string) bool {
	lower, upper, digit := countKinds(s)
	if digit == 0 || lower+upper == 0 || isWordy(s) {
		return false
	}
	return lower > 1 && upper > 1 || digit*8 >= len(s)
}

// looksChosen reports whether a value is a password by its look: 8 bytes and more without blanks,
// of letters and digits, which is neither a path, an address, a call, a count nor made of words.
func looksChosen(s string) bool {
	letters, digits := 0, 0
	for i := range len(s) {
		switch c := s[i]; {
		case c|0x20 >= 'a' && c|0x20 <= 'z':
			letters++
		case c >= '0' && c <= '9':
			digits++
		case c == ' ', c == '/', c == '(':
			return false
		}
	}
	return len(s) >= 8 && letters > 1 && digits > 0 && !isAddress(s) && !isCount(s) &&
		!isWordy(s) && !isUUID(s) && !isDate(s)
}

// looksSecret reports whether a value is a secret by its own look: long, without blanks, and of
// letters and digits in disorder. What programs use as names of things is not: a UUID, or a digest.
func looksSecret(s string) bool {
	if isPair(s) {
		return true
	}
	if len(s) < 12 || strings.IndexByte(s, ' ') >= 0 || isUUID(s) || strings.Contains(s, "://") {
		return false
	}
	if (len(s) == 40 || len(s) == 64) && hasOnly(s, hex) || strings.HasPrefix(s, "sha") ||
		isDate(s) {
		return false
	}
	return looksRandom(s) && (hasDense(s) || strings.ContainsAny(s, "+/=!@#$%^&*~"))
}

// isUUID reports whether a text is a UUID.
func isUUID(s string) bool {
	return len(s) == 36 && s[8] == '-' && s[13] == '-' && s[18] == '-' && s[23] == '-' &&
		hasOnly(s, uuid)
}

// isDate reports whether a text begins with a date.
func isDate(s string) bool {
	return len(s) >= 10 && s[4] == '-' && s[7] == '-' && isNumber(s[:4]) && isNumber(s[5:7]) &&
		isNumber(s[8:10])
}

// isPair reports whether a value is a user and a password in base64, as docker and npm keep them.
func isPair(s string) bool {
	if len(s) < 8 || !hasOnly(s, base64Std) {
		return false
	}
	text, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		text, err = base64.RawStdEncoding.DecodeString(s)
	}
	if err != nil {
		return false
	}
	colon := false
	for _, c := range text {
		if c < ' ' || c >= 0x7F {
			return false
		}
		colon = colon || c == ':'
	}
	return colon
}

// walletBytes are those of the words of a wallet.
var walletBytes = letters("a-z ")

// isProse reports whether a value with blanks is a sentence or a label and not a passphrase.
func isProse(s string) bool {
	fields := strings.Fields(s)
	if n := len(fields); n >= 12 && n%3 == 0 && hasOnly(s, walletBytes) {
		return false // the words of a wallet
	}
	if last := s[len(s)-1]; last == '.' || last == '?' || last == '!' && len(fields) > 2 ||
		last == ':' {
		return true
	}
	known, mixed := 0, 0
	for _, w := range fields {
		switch lower := strings.ToLower(strings.Trim(w, ".,;:!?()\"'")); {
		case fillWords[lower] || constants[lower]:
			known++
		case isMixed(w):
			mixed++
		}
	}
	return known > 0 || isTitle(fields[0]) && mixed == 0 && len(fields) < 12
}
