package secret

import "strings"

// A line is what is known of the line, or the few lines, that a word stands in.
type line struct {
	command *command // that begins it
	stdin   bool     // what the command reads is secret
	netrc   bool     // it is of a file with logins
	items   strength // those of the list on the next lines are secret, if it is not zero
	from    int      // by how many blanks they are indented
}

// next returns what is known of the line that follows the line break at the current place. The
// items of a list are masked where they stand.
func (l line) next(r *reader) line {
	after := line{netrc: l.netrc, items: l.items, from: l.from}
	if r.at > 0 && strings.IndexByte("\\`^", r.S[r.at-1]) >= 0 {
		after.command, after.stdin = l.command, l.stdin
	}
	if l.netrc && (r.Byte(r.at+1) == '\n' || r.Byte(r.at+1) == '#') {
		after.netrc = false
	}
	if l.items == noSecret {
		return after
	}
	at := r.Skip(r.at+1, " ")
	if r.Byte(at) != '-' || r.Byte(at+1) != ' ' || at-r.at-1 < l.from {
		after.items, after.from = noSecret, 0
		return after
	}
	f := form{op: opColon, is: l.items}
	r.maskValue(r.Skip(at+1, " "), &f, false)
	return after
}

// A command is a program whose arguments may be secret.
type command struct {
	flags []flag
	login string // the flags count behind this word alone, unless it is empty
}

// A flag is one whose value is secret, and how.
type flag struct {
	name string
	how  how
}

// A how says which part of an argument is secret.
type how uint8

const (
	whole      how = iota
	attached       // what stands right behind the flag
	afterColon     // what stands behind the first colon
	afterSign      // what stands behind the first '%'
	passForm       // what stands behind "pass:"
)

var (
	sqlFlags  = &command{flags: []flag{{"-p", attached}}}
	userFlags = &command{flags: []flag{
		{"-u", afterColon},
		{"--user", afterColon},
		{"-a", afterColon},
		{"--auth", afterColon},
		{"-U", afterColon},
		{"--proxy-user", afterColon},
	}}
	shortFlags  = &command{flags: []flag{{"-p", whole}, {"-pw", whole}}}
	upperFlags  = &command{flags: []flag{{"-P", whole}}}
	bindFlags   = &command{flags: []flag{{"-w", whole}}}
	authFlags   = &command{flags: []flag{{"-a", whole}, {"--pass", whole}}}
	signFlags   = &command{flags: []flag{{"-U", afterSign}}}
	loginFlags  = &command{flags: []flag{{"-p", whole}}, login: "login"}
	opensslArgs = &command{flags: []flag{
		{"-k", whole}, {"-passin", passForm}, {"-passout", passForm}, {"-pass", passForm},
	}}
	uploadFlags = &command{flags: []flag{{"-t", whole}}}
	snmpFlags   = &command{flags: []flag{{"-c", whole}, {"-A", whole}, {"-X", whole}}}
)

// commands are the programs that are known, by their name in lower case.
var commands = map[string]*command{
	"mysql": sqlFlags, "mysqldump": sqlFlags, "mysqladmin": sqlFlags, "mariadb": sqlFlags,
	"mariadb-dump": sqlFlags,
	"mysqlimport":  sqlFlags, "mysqlsh": sqlFlags, "7z": sqlFlags, "7za": sqlFlags,
	"7zz": sqlFlags, "rar": sqlFlags,
	"curl": userFlags, "wget": userFlags, "http": userFlags, "https": userFlags, "xh": userFlags,
	"curlie":  userFlags,
	"sshpass": {flags: []flag{{"-p", whole}, {"-p", attached}}},
	"plink":   shortFlags, "pscp": shortFlags, "mongo": shortFlags, "mongosh": shortFlags,
	"mongodump":    shortFlags,
	"mongorestore": shortFlags, "mongoexport": shortFlags, "mongoimport": shortFlags,
	"cqlsh": shortFlags,
	"twine": shortFlags, "cypher-shell": shortFlags, "rdesktop": shortFlags,
	"crackmapexec": shortFlags, "psexec": shortFlags,
	"unzip": upperFlags, "zip": upperFlags, "sqlcmd": upperFlags, "bcp": upperFlags,
	"tsql":          upperFlags,
	"mosquitto_pub": upperFlags, "mosquitto_sub": upperFlags, //nolint:misspell // so it is called
	"ipmitool":   upperFlags,
	"ldapsearch": bindFlags, "ldapmodify": bindFlags, "ldapadd": bindFlags,
	"ldapwhoami": bindFlags, "ldapdelete": bindFlags,
	"redis-cli": authFlags, "valkey-cli": authFlags, "keydb-cli": authFlags,
	"smbclient": signFlags, "rpcclient": signFlags, "winexe": signFlags, "smbmap": shortFlags,
	"docker": loginFlags, "podman": loginFlags, "buildah": loginFlags, "skopeo": loginFlags,
	"oras": loginFlags,
	"helm": loginFlags, "az": loginFlags, "oc": loginFlags, "cf": loginFlags,
	"nerdctl": loginFlags, "crane": loginFlags,
	"codecov": uploadFlags, "codecovcli": uploadFlags, "codecov.sh": uploadFlags,
	"openssl": opensslArgs, "snmpwalk": snmpFlags, "snmpget": snmpFlags,
}

// stdinWords are words of a command whose standard input is secret.
var stdinWords = words("password-stdin pass-stdin chpasswd passphrase-fd with-token kinit cryptsetup passwd token-stdin")

// maxKeyword is how many bytes the longest word has that visitKeyword knows.
const maxKeyword = 16

// isKeyword reports whether visitKeyword knows a word.
func isKeyword(w string) bool {
	var buf [maxKeyword]byte
	lower := lowered(&buf, w)
	if commands[string(lower)] != nil || stdinWords[string(lower)] {
		return true
	}
	switch string(lower) {
	case "bearer", "basic", "machine", "echo", "printf", "login", "identified", "pass", "mc", "net",
		"auth", "wandb", "sudo":
		return true
	}
	return false
}

// lowered returns a short text in lower case.
func lowered(buf *[maxKeyword]byte, s string) []byte {
	if len(s) > maxKeyword {
		return nil
	}
	for i := range len(s) {
		c := s[i]
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		buf[i] = c
	}
	return buf[:len(s)]
}

// visitKeyword decides about a word that says what follows. It reports whether nothing else is to
// be decided about the word.
func (r *reader) visitKeyword(start, end int) bool {
	var buf [maxKeyword]byte
	w := string(lowered(&buf, r.S[start:end]))
	if c := commands[w]; c != nil && r.startsCommand(start) {
		if next := r.Byte(end); next == ' ' || next == '\t' || next == '\\' {
			r.line.command = c
			return true
		}
	}
	if stdinWords[w] {
		r.line.stdin = true
	}
	switch w {
	case "bearer":
		value := r.blankEnd(end)
		n := r.run1(value, base64Tilde)
		if value > end && n-value >= 18 && !isFiller(r.S[value:n]) &&
			!isPlaceholder(r.S[value:n]) && !isWordy(r.S[value:n]) {
			r.maskSpan(value, n, bareUntil)
		} else if value > end && n-value >= 18 && hasOnly(r.S[value:n], lowerNum) &&
			!isPlaceholder(r.S[value:n]) {
			r.maskSpan(value, n, bareUntil)
		}
	case "basic":
		value := r.blankEnd(end)
		if n := r.run1(value, base64Std); value > end && n > value && isPair(plain(r.S[value:n])) {
			r.maskSpan(value, n, bareUntil)
		}
	case "machine":
		if r.Byte(end) == ' ' && (start == 0 || strings.IndexByte("\n\" \t'", r.S[start-1]) >= 0) {
			r.line.netrc = true
		}
	case "login":
		if c := r.Byte(end); (c == ' ' || c == '\t') &&
			strings.Trim(lineOf(r.before(start)), " \t") == "" {
			r.line.netrc = true
		}
	case "sudo":
		r.line.stdin = r.line.stdin || r.readsPassword(end)
	case "echo", "printf":
		if r.startsCommand(start) {
			r.maskPiped(end)
		}
	case "identified":
		if r.HasFold(end, " by ") {
			f := form{name: w, is: passwordTag, op: opEquals}
			if at := end + len(" by "); r.quoteEnd(at) > at {
				r.maskValue(at, &f, false)
			}
		}
	case "mc", "net", "auth", "wandb":
		if next := r.Byte(end); (next == ' ' || next == '\t') && r.startsCommand(start) {
			r.maskPlaced(w, start, end)
		}
		return r.mask != ""
	case "pass":
		if r.line.command == opensslArgs && r.Byte(end) == ':' {
			f := form{name: "password", is: passwordTag, op: opEquals, tight: true}
			r.maskValue(end+1, &f, false)
		}
	default:
		return false
	}
	return r.mask != "" || w != "pass"
}

var base64Tilde = letters("A-Za-z0-9_.~+/=-")

// lineOf returns the part of a text behind its last line break.
func lineOf(s string) string { return s[strings.LastIndexByte(s, '\n')+1:] }

// startsCommand reports whether a word stands where the name of a program may.
func (r *reader) startsCommand(start int) bool {
	before := strings.TrimRight(lineOf(r.before(start)), " \t")
	if before == "" {
		return true
	}
	if strings.IndexByte("|;&$#>(`'\"/%!=:", before[len(before)-1]) >= 0 {
		return true
	}
	last := before[strings.LastIndexByte(before, ' ')+1:]
	return last == "sudo" || last == "exec" || last == "run" || last == "RUN" || last == "CMD" ||
		last == "-c" || last == "time" ||
		strings.IndexByte(last, '=') > 0 || last == "then" || last == "do" || last == "xargs" ||
		last == "env" || last == "-"
}

// maskFlag masks the value of a flag of the command that the line is of, given that the place has a
// '-'.
func (r *reader) maskFlag() {
	c := r.line.command
	if c == nil || r.at == 0 || strings.IndexByte(" \t", r.S[r.at-1]) < 0 {
		return
	}
	if c.login != "" {
		before := r.before(r.at)
		if !strings.Contains(before, c.login+" ") {
			return
		}
	}
	for _, f := range c.flags {
		if !r.Has(r.at, f.name) {
			continue
		}
		at := r.at + len(f.name)
		switch next := r.Byte(at); {
		case f.how == attached:
			if next == ' ' || next == '\n' || next == '=' || next == 0 || next == '\t' {
				continue
			}
		case next == ' ' || next == '=' || next == '\t':
			at = r.Skip(at+1, " \t")
		case len(f.name) == 2 && f.how != whole && next > ' ' && next != '-':
		default:
			continue
		}
		if r.maskArgument(at, f.how); r.mask != "" {
			return
		}
	}
}

// maskArgument masks the secret part of an argument.
func (r *reader) maskArgument(at int, part how) {
	if r.Byte(at) == '-' && part != attached {
		return
	}
	quote := r.quoteEnd(at)
	var end int
	if quote > at {
		end = r.quotedEnd(quote, r.S[quote-1])
		at = quote
		for end > at && r.S[end-1] == '\\' {
			end--
		}
	} else {
		end = r.markedEnd(at, r.bareEnd(at, false))
	}
	sign := ""
	switch part {
	case afterColon:
		sign = ":"
	case afterSign:
		sign = "%"
	case passForm:
		sign = "pass:"
	case whole, attached:
	}
	if sign != "" {
		i := strings.Index(r.S[at:end], sign)
		if i < 0 {
			return
		}
		at += i + len(sign)
	}
	if v := r.S[at:end]; v != "" && !isMask(v) && !isReference(v) && !isFiller(v) &&
		!isPlaceholder(v) && !isPath(v) {
		if lower := strings.ToLower(v); constants[lower] || lower == "password" {
			return
		}
		r.maskSpan(at, end, bareUntil)
	}
}

// readsPassword reports whether the options of sudo from a position on have it read the password
// from its standard input.
func (r *reader) readsPassword(at int) (reads bool) {
	const (
		most  = 128
		ends  = " \t\r\n<"
		takes = "CDRTUghprtu" // the letters behind which a word of theirs follows
	)
	part := r.Within(at, most)
	for at = part.Skip(at, " \t"); part.Byte(at) == '-' && !reads; at = part.Skip(at, " \t") {
		end := part.Any(at, ends)
		option := part.S[at:end]
		isLong := strings.HasPrefix(option, "--")
		reads = option == "--stdin" || !isLong && strings.Contains(option, "S")
		if at = end; !isLong && strings.IndexByte(takes, option[len(option)-1]) >= 0 {
			at = part.Any(part.Skip(at, " \t"), ends)
		}
	}
	r.Join(part)
	return reads
}

// maskPiped masks the argument of echo or printf if what it writes is piped to a program that reads
// a secret.
func (r *reader) maskPiped(at int) {
	const most = 400
	part := r.Within(at, most)
	stop := part.Any(at, "\n")
	rest := part.S[at:stop]
	r.Join(part)
	i := strings.IndexByte(rest, '|')
	if i < 0 {
		return
	}
	reads := false
	for _, w := range [...]string{
		"password-stdin", "sudo -S", "sudo -kS", "chpasswd", "--stdin", "passphrase-fd",
		"with-token", "kinit", "cryptsetup", "passwd",
		"token-stdin", "secret set", "secrets create", "secret create", "su -c",
	} {
		reads = reads || strings.Contains(rest[i:], w)
	}
	if !reads {
		return
	}
	for {
		at = r.Skip(at, " \t")
		if r.Byte(at) != '-' {
			break
		}
		at = r.Any(at, " |\n")
	}
	r.maskArgument(at, whole)
}

// maskPlaced masks the secret that a command has at a place of its own, without a flag: the last of
// mc alias set NAME URL ACCESS SECRET, the one behind the share of net use or the user of net user,
// that of wandb login, and what AUTH of SMTP and of Redis takes.
func (r *reader) maskPlaced(name string, start, end int) {
	const most = 400
	part := r.Within(end, most)
	stop := part.Any(end, "\r\n|;")
	line := part.S[end:stop]
	r.Join(part)
	args, at := strings.Fields(line), -1
	if len(args) == 0 {
		return
	}
	switch first := args[0]; {
	case name == "mc" && len(args) >= 6 && (first == "alias" || first == "config"):
		for i, a := range args[:len(args)-2] {
			if isAddress(a) {
				at = i + 2
			}
		}
	case name == "net" && strings.EqualFold(first, "use"):
		for i, a := range args[1:] {
			if strings.HasPrefix(a, `\\`) {
				at = i + 2
			}
		}
	case name == "net" && strings.EqualFold(first, "user") && len(args) > 2:
		at = 2
	case name == "wandb" && first == "login":
		at = len(args) - 1
	case name == "auth" && r.S[start:end] == "AUTH":
		if at = len(args) - 1; at > 1 || !isMixed(args[at]) && !looksRandom(args[at]) {
			return
		}
	}
	if at < 1 && name != "auth" || at < 0 || at >= len(args) {
		return
	}
	v := strings.Trim(args[at], "\"'`")
	if v == "" || strings.IndexByte("*/-", v[0]) >= 0 || len(v) < 4 || isReference(v) ||
		isPlaceholder(v) || isFiller(v) || isMask(v) {
		return
	}
	from := 0
	for _, a := range args[:at] {
		from += strings.Index(line[from:], a) + len(a)
	}
	from += end + strings.Index(line[from:], v)
	r.maskSpan(from, from+len(v), bareUntil)
}

// maskHereString masks the text that a shell gives to a command which reads a secret, given that
// the place has a '<'.
func (r *reader) maskHereString() {
	if r.line.stdin && r.Has(r.at, "<<<") {
		r.maskArgument(r.Skip(r.at+3, " "), whole)
	}
}
