package secret

import (
	"slices"
	"strings"
)

// A strength says how surely the value of a name is secret.
type strength uint8

const (
	noSecret    strength = iota
	uuidName             // a UUID behind it is secret
	messageName          // of a message about a password: the value must look like one
	weakName             // it may be: the value must look like a secret
	listName             // several secrets: a list of values
	secretName           // a token or a key
	passwordTag          // a password: any word may be one
)

// A nameEnd is the end of a name, in lower case and without '_', '-' and '.'.
type nameEnd struct {
	end   string
	whole bool // it must begin a word of the name, or the name
	is    strength
}

// nameEnds are the ends of names whose values are secret, by their last letter. The longest that
// matches counts.
var nameEnds = byLength([256][]nameEnd{
	'd': {
		{"password", false, passwordTag},
		{"passwd", false, passwordTag},
		{"pwd", false, passwordTag},
		{"wachtwoord", true, passwordTag},
		{"credential", true, weakName},
		{"secretid", true, uuidName},
		{"sessionid", false, weakName},
		{"sessid", false, weakName},
		{"sid", true, weakName},
		{"appid", true, weakName},
	},
	't': {
		{"passwort", false, passwordTag},
		{"secret", false, secretName},
		{"signaturesalt", true, secretName},
		{"authsalt", true, secretName},
		{"keysalt", true, secretName},
		{"noncesalt", true, secretName},
		{"loggedinsalt", true, secretName},
		{"jwt", true, secretName},
		{"pat", true, weakName},
	},
	'e': {
		{"passphrase", false, passwordTag},
		{"depasse", true, passwordTag},
		{"clave", true, passwordTag},
		{"signature", true, weakName},
		{"code", true, weakName},
		{"passcode", true, passwordTag},
		{"secretkeybase", false, secretName},
		{"seedphrase", true, secretName},
		{"recoveryphrase", true, secretName},
		{"secretvalue", true, secretName},
		{"secretaccesskeyvalue", true, secretName},
		{"sharedaccesssignature", false, secretName},
		{"xamzsignature", true, secretName},
		{"xgoogsignature", true, secretName},
		{"recoverycode", true, secretName},
		{"backupcode", true, secretName},
	},
	'n': {
		{"token", true, secretName},
		{"accesstoken", false, secretName},
		{"authtoken", false, secretName},
		{"apitoken", false, secretName},
		{"bearertoken", false, secretName},
		{"refreshtoken", false, secretName},
		{"sessiontoken", false, secretName},
		{"idtoken", false, secretName},
		{"bottoken", false, secretName},
		{"privatetoken", false, secretName},
		{"clienttoken", false, secretName},
		{"authorization", true, secretName},
		{"bwsession", true, secretName},
	},
	's': {
		{"sshpass", true, passwordTag},
		{"keypass", true, passwordTag},
		{"storepass", true, passwordTag},
		{"dbpass", false, passwordTag},
		{"userpass", true, passwordTag},
		{"requirepass", true, passwordTag},
		{"ldappass", true, passwordTag},
		{"smtppass", true, passwordTag},
		{"ftppass", true, passwordTag},
		{"rootpass", true, passwordTag},
		{"pgpass", true, passwordTag},
		{"pass", true, weakName},
		{"passwords", false, listName},
		{"secrets", true, listName},
		{"apikeys", true, listName},
		{"privatekeys", true, listName},
		{"accesskeys", true, listName},
		{"secretkeys", true, listName},
		{"tokens", true, listName},
		{"credentials", true, weakName},
		{"recoverycodes", true, listName},
		{"backupcodes", true, listName},
	},
	'y': {
		{"apikey", false, secretName},
		{"secretkey", false, secretName},
		{"privatekey", false, secretName},
		{"accesskey", false, secretName},
		{"masterkey", false, secretName},
		{"signingkey", false, secretName},
		{"signaturekey", false, secretName},
		{"encryptionkey", false, secretName},
		{"decryptionkey", false, secretName},
		{"accountkey", false, secretName},
		{"storagekey", true, weakName},
		{"sharedkey", false, secretName},
		{"presharedkey", false, secretName},
		{"authkey", false, secretName},
		{"appkey", true, secretName},
		{"applicationkey", true, secretName},
		{"unsealkey", true, secretName},
		{"recoverykey", true, secretName},
		{"hmackey", true, secretName},
		{"subscriptionkey", false, secretName},
		{"licensekey", false, secretName},
		{"licencekey", false, secretName},
		{"servicekey", true, secretName},
		{"servicerolekey", true, secretName},
		{"serverkey", true, secretName},
		{"adminkey", true, secretName},
		{"deploykey", true, secretName},
		{"rootkey", true, secretName},
		{"jwtkey", true, secretName},
		{"aeskey", true, secretName},
		{"cookiekey", true, secretName},
		{"loggedinkey", true, secretName},
		{"noncekey", true, weakName},
		{"restkey", true, secretName},
		{"writekey", true, secretName},
		{"readkey", true, weakName},
		{"integrationkey", true, secretName},
		{"routingkey", true, weakName},
		{"key", true, weakName},
	},
	'm': {{"honeycombteam", true, secretName}},
	'o': {{"heslo", true, passwordTag}},
	'a': {{"senha", true, passwordTag}, {"parola", true, passwordTag}, {
		"clientkeydata", true,
		secretName,
	}, {"tokendata", true, secretName}},
	'k': {{"psk", true, passwordTag}, {"networkkeypsk", true, passwordTag}},
	'w': {{"pw", true, passwordTag}, {"dbpw", true, passwordTag}},
	'h': {
		{"auth", true, weakName},
		{"masterauth", true, passwordTag},
		{"rediscliauth", true, passwordTag},
	},
	'r': {{"bearer", true, weakName}},
	'c': {{"mnemonic", true, secretName}},
	'g': {{"sig", true, weakName}, {"securestring", false, passwordTag}},
	'p': {{"otp", true, passwordTag}},
})

// byLength sorts ends of names, the longest first.
func byLength(ends [256][]nameEnd) [256][]nameEnd {
	for _, list := range ends {
		slices.SortStableFunc(list, func(a, b nameEnd) int { return len(b.end) - len(a.end) })
	}
	return ends
}

// plainNames are the ends of names that look secret and are not, by the reason.
var plainNames = [256][]string{
	'y': {
		// They name a record, a place or a thing.
		"sessionkey", "publickey", "publishablekey", "primarykey", "foreignkey", "partitionkey",
		"sortkey", "cachekey",
		"idempotencykey", "uniquekey", "rowkey", "groupkey", "objectkey", "mapkey", "dictkey",
		"hotkey", "shortcutkey",
		"i18nkey", "translationkey", "localekey", "messagekey", "registrykey", "sitekey",
		"hashkey", "rangekey",
		"indexkey", "configkey", "settingkey", "arrowkey", "enterkey", "itemkey", "columnkey",
		"sortingkey",
		"websocketkey", "surrogatekey", "naturalkey", "candidatekey", "compositekey", "bucketkey",
		"s3key", "jsonkey",
		"childsessionkey", "datakey", "fieldkey", "metakey", "labelkey", "tagkey", "topologykey",
		"lookupkey", "answerkey",
		"yubikey", "monkey", "nextkey", "lastkey", "startkey", "endkey", "stringkey", "modelkey",
		"fingerprintkey",
		"lockkey", "queuekey", "issuekey", "projectkey", "reactkey", "hostkey", "escapekey",
		"ctrlkey", "metakey",
		"altkey", "shiftkey", "functionkey", "homekey", "returnkey", "pressanykey", "anykey",
		"secretnamekey",
		"anonkey", "verificationkey", "authorizedkey",
	},
	'n': {
		// They stand for a place in a list, a word of a text, or a signal.
		"nextpagetoken", "pagetoken", "nexttoken", "continuationtoken", "synctoken",
		"cursortoken", "eostoken",
		"bostoken", "padtoken", "unktoken", "septoken", "clstoken", "masktoken", "maxtoken",
		"stoptoken", "endtoken",
		"starttoken", "cancellationtoken", "canceltoken", "lasttoken", "firsttoken", "inputtoken",
		"outputtoken",
		"totaltoken", "pertoken", "csstoken", "designtoken", "specialtoken", "unexpectedtoken",
		"invalidtoken",
		"missingtoken", "expiredtoken", "perprompttoken", "subtoken", "nametoken", "cachedtoken",
		"prompttoken",
		"completiontoken", "wordtoken", "syntaxtoken", "newtoken", "notoken", "skiptoken",
		"clientrequesttoken",
		"preauthorization", "idempotencytoken", "deletiontoken",
	},
	'd': {
		"forgotpassword", "resetpassword", "invalidpassword", "wrongpassword", "missingpassword",
		"incorrectpassword",
		"changepassword", "showpassword", "hidepassword", "requirepassword", "requirespassword",
		"nopassword",
		"confirmpasswordmessage", "enterpassword", "isforgotpassword", "haspassword",
		"usepassword", "askpassword",
		"expiredpassword", "rememberpassword", "typepassword", "checkpassword", "verifypassword",
		"hashpassword",
	},
	't': {
		"hassecret", "usesecret", "issecret", "kubernetessecret", "imagepullsecret",
		"createsecret",
	},
	's': {
		"maxtokens", "mintokens", "inputtokens", "outputtokens", "totaltokens", "prompttokens",
		"completiontokens",
		"cachedtokens", "reasoningtokens", "numtokens", "ntokens", "stoptokens", "specialtokens",
		"contexttokens",
		"budgettokens", "tokenstokens", "bypass", "compass", "usedtokens", "designtokens",
		"wordtokens", "imagepullsecrets",
	},
	'h': {"oauth", "basicauth", "requireauth", "noauth", "useauth", "hasauth"},
}

// isEndByte is true for the last letters of the names in nameEnds.
var isEndByte = func() (set [256]bool) {
	for c, ends := range nameEnds {
		if len(ends) > 0 {
			set[c], set[c&^0x20] = true, true
		}
	}
	return set
}()

// maxName is how many bytes of a name are looked at, from its end.
const maxName = 64

// strengthOf returns how surely the value of a name is secret. before is what stands before the
// name in the text, at most so much of it that a word of its own fits, such as "primary " before
// "key".
func strengthOf(name, before string) strength {
	name = strings.TrimRight(name, "_-")
	if name == "" || !isEndByte[name[len(name)-1]] {
		return noSecret
	}
	if len(name) > maxName {
		name = name[len(name)-maxName:]
	}
	var buf [2 * maxName]byte
	var start [2 * maxName]bool // a word starts there
	n := 0
	lead := leadOf(before)
	for _, part := range [...]string{lead, name} {
		atStart := true
		for i := range len(part) {
			c := part[i]
			if c == '_' || c == '-' || c == '.' {
				atStart = true
				continue
			}
			start[n] = atStart || i > 0 && startsWord(part, i)
			atStart = false
			if c >= 'A' && c <= 'Z' {
				c += 'a' - 'A'
			}
			buf[n] = c
			n++
		}
	}
	if n == 0 {
		return noSecret
	}
	joined := string(buf[:n])
	is := noSecret
	for _, e := range nameEnds[buf[n-1]] {
		if strings.HasSuffix(joined, e.end) && (!e.whole || start[n-len(e.end)]) {
			is = e.is
			break
		}
	}
	if is == noSecret {
		return noSecret
	}
	for _, end := range plainNames[buf[n-1]] {
		if strings.HasSuffix(joined, end) && start[n-len(end)] {
			if is == passwordTag { // what follows may say what is wrong with it, or be it
				return messageName
			}
			return noSecret
		}
	}
	return is
}

// leadOf returns the word at the end of what stands before a name, if a blank, a dot or a hyphen is
// all that stands between them: at most the last maxName bytes.
func leadOf(before string) string {
	n := len(before)
	if n == 0 || strings.IndexByte(" .-", before[n-1]) < 0 {
		return ""
	}
	n--
	at := n
	for at > 0 && n-at < maxName && isNameByte[before[at-1]] {
		at--
	}
	return before[at:n]
}

// startsWord reports whether a word begins at name[at]. at must not be 0.
func startsWord(name string, at int) bool {
	before, first := name[at-1], name[at]
	if before == '_' || before == '-' || before == '.' {
		return true
	}
	isUpper := first >= 'A' && first <= 'Z'
	return isUpper && (before >= 'a' && before <= 'z' || before >= '0' && before <= '9')
}

// isUpperName reports whether a name is that of a variable of the environment.
func isUpperName(s string) bool {
	for i := range len(s) {
		if s[i] >= 'a' && s[i] <= 'z' {
			return false
		}
	}
	return true
}

// isHeader reports whether a word is the name of an HTTP header that carries credentials, in any
// letter case.
func isHeader(w string) bool {
	switch len(w) {
	case len("cookie"), len("set-cookie"), len("authorization"), len("proxy-authorization"):
	default:
		return false
	}
	for _, name := range [...]string{
		"cookie", "set-cookie", "authorization",
		"proxy-authorization",
	} {
		if strings.EqualFold(w, name) {
			return true
		}
	}
	return false
}

// isWordByte is true for the bytes of a word.
var isWordByte = word

// isName reports whether a text is one word.
func isName(s string) bool {
	for i := range len(s) {
		if !isWordByte[s[i]] {
			return false
		}
	}
	return true
}

// isNameByte is true for the bytes of names and tokens: ASCII letters, digits and '_'.
var isNameByte = letters("A-Za-z0-9_")
