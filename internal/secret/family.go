package secret

import "strings"

// A Family is a kind of token that is known by how it begins.
type Family struct {
	Name   string    // the service and what the token is
	Begin  string    // how it begins
	Body   *alphabet // of what follows
	Min    int       // bytes of that, at least
	Max    int       // bytes of that, at most; 0: any number
	Care   care      // what else the body must be
	Source string    // whose documentation says so
}

// Families returns how many families are known.
func Families() int { return len(families) + len(addresses) }

// A care says how much more than its alphabet and length a token needs, so that prose, names and
// paths are not taken for one.
type care uint8

const (
	distinct care = iota // nothing: no other text begins like that
	loose                // some part of eight letters and digits, with both in it
	vague                // letters and digits in a disorder that no name has
)

// An alphabet is a set of bytes.
type alphabet [256]bool

// letters returns the alphabet of some bytes, in which a-z is a range.
func letters(spec string) *alphabet {
	var set alphabet
	for i := 0; i < len(spec); i++ {
		if i+2 < len(spec) && spec[i+1] == '-' {
			for c := int(spec[i]); c <= int(spec[i+2]); c++ {
				set[c] = true
			}
			i += 2
			continue
		}
		set[spec[i]] = true
	}
	return &set
}

var (
	alnum      = letters("A-Za-z0-9")
	lowerNum   = letters("a-z0-9")
	upperNum   = letters("A-Z0-9")
	upperDash  = letters("A-Z0-9-")
	hex        = letters("0-9A-Fa-f")
	hexLower   = letters("0-9a-f")
	hexDash    = letters("0-9a-f-")
	uuid       = letters("0-9A-Fa-f-")
	base58     = letters("1-9A-HJ-NP-Za-km-z")
	word       = letters("A-Za-z0-9_-")
	dotted     = letters("A-Za-z0-9_.-")
	base64Url  = letters("A-Za-z0-9_=-")
	base64Std  = letters("A-Za-z0-9+/=,")
	base64Dot  = letters("A-Za-z0-9+/=.")
	base64Both = letters("A-Za-z0-9+/=_.-")
	percent    = letters("A-Za-z0-9%+/=_-")
	paypal     = letters("a-z0-9$")
	salesforce = letters("A-Za-z0-9!._")
	dynatrace  = letters("A-Za-z0-9.")
	airtable   = letters("A-Za-z0-9.")
	clickup    = letters("A-Z0-9_")
	asana      = letters("0-9a-f/:")
	ebay       = letters("A-Za-z0-9+/=#^._-")
	userinfo   = letters("A-Za-z0-9:@._-")
	bitwarden  = letters("A-Za-z0-9+/=:.-")
	convex     = letters("A-Za-z0-9+/=|_-")
	bang       = letters("A-Za-z0-9!._")
)

// familyEnd returns where the token ends that starts at a position, or 0.
func (r *reader) familyEnd(start int) int {
	if r.Ended(start + 1) {
		return 0
	}
	for _, f := range familiesOf(r.S[start], r.S[start+1]) {
		if !r.Has(start, f.Begin) {
			continue
		}
		if end := r.bodyEnd(start+len(f.Begin), f); end > 0 {
			return end
		}
	}
	return r.shapeEnd(start)
}

// bodyEnd returns where the body of a token ends, or 0 if it is not one of the family.
func (r *reader) bodyEnd(at int, f *Family) int {
	if r.isLongAndDull(at, f) {
		return 0
	}
	end, n := r.bodyRun(at, f)
	if n < f.Min || f.Max > 0 && n > f.Max && !f.isGlued(r.S[at:end]) {
		return 0
	}
	if next := r.nextToken(at+f.Min, end); next > 0 {
		return next
	}
	body := plain(r.S[at:end])
	for strings.HasPrefix(body, f.Begin) {
		body = body[len(f.Begin):]
	}
	if isFiller(body) {
		return 0
	}
	if !f.hasLook(body) {
		return 0
	}
	if f.Max > 0 && !isWordEnd(r, end) && (f.Care != distinct || !f.isGlued(body)) {
		return 0
	}
	return end
}

// hasLook reports whether a body has the look that its family needs, so that prose has not.
func (f *Family) hasLook(body string) bool {
	switch f.Care {
	case distinct:
	case loose:
		whole := f.Min <= 8 && !strings.ContainsAny(body, "-_")
		return whole || hasDense(body)
	case vague:
		return looksRandom(body)
	}
	return true
}

// isLongAndDull reports whether a body of any length begins with more than is weighed of one, and
// with nothing that a token would have. A token may begin at each place within it, so that to read
// it to its end would take time that grows with the square of the text.
func (r *reader) isLongAndDull(at int, f *Family) bool {
	if f.Max > 0 || f.Care == distinct {
		return false
	}
	end := at
	for end-at < mostWeighed && !r.Ended(end) && f.Body[r.S[end]] {
		end++
	}
	body := r.S[at:end]
	if len(body) < mostWeighed {
		return false
	}
	return isOneByte(f.Begin+body) ||
		strings.ContainsAny(body, "-_") && !hasDense(body) && !looksRandom(body)
}

// nextToken returns where a token begins, not before a position, that is glued to the end of
// another one, which has taken its first letters for its own. It returns 0 if none does.
func (r *reader) nextToken(least, end int) int {
	if c := r.Byte(end); c != '_' && c != '-' {
		return 0
	}
	const longest = 12
	for at := max(least, end-longest); at < end-1; at++ {
		for _, f := range familiesOf(r.S[at]&0x7F, r.S[at+1]) {
			if at+len(f.Begin) > end && r.Has(at, f.Begin) {
				return at
			}
		}
	}
	return 0
}

// isGlued reports whether a body that goes on, or that a letter or a digit follows, is surely one
// of the family, to which a word was glued when something between them was removed.
func (f *Family) isGlued(body string) bool {
	return f.Care == distinct && len(f.Begin) >= 4 && looksRandom(plain(body))
}

// gluedToken returns where a token starts and ends that stands behind the first letter of a word,
// because what stood between them was removed, or 0 twice. Only what no name has counts: a known
// beginning and much disorder behind it.
func (r *reader) gluedToken(start, end int) (from, to int) {
	const most = 8 // beginnings that are weighed
	weighed := 0
	for at := start + 1; at < end-3 && weighed < most; at++ {
		if r.Has(at, "eyJ") {
			if to := r.shapeEnd(at); to-at >= 40 && looksRandom(r.S[at:end]) {
				return at, to
			}
			weighed++
		}
		for _, f := range familiesOf(r.S[at], r.S[at+1]) {
			if len(f.Begin) < 4 || !r.Has(at, f.Begin) {
				continue
			}
			weighed++
			body := at + len(f.Begin)
			stop := body
			for stop-body < mostWeighed && !r.Ended(stop) && f.Body[r.S[stop]] {
				stop++
			}
			parts := strings.ContainsAny(f.Begin, "_-")
			if text := r.S[body:stop]; stop-body < f.Min ||
				(!hasDense(text) || !isShuffled(text)) &&
					(!parts || f.Care != distinct || !isTangled(text)) {
				continue
			}
			if !parts && (stop < end || !hasOnly(r.S[start:at], lowerOnly)) {
				continue // it may stand in the middle of anything in base64
			}
			if to := r.bodyEnd(body, f); to > 0 {
				return at, to
			}
		}
	}
	return 0, 0
}

var lowerOnly = letters("a-z")

// isShuffled reports whether letters and digits of a text take turns as in no name with a number.
func isShuffled(s string) bool {
	const least = 4
	turns := 0
	for i := 1; i < len(s); i++ {
		if alnum[s[i]] && alnum[s[i-1]] && (s[i] <= '9') != (s[i-1] <= '9') {
			turns++
		}
	}
	return turns >= least
}

// isTangled reports whether the first letters and digits of a text are many, and small letters,
// capitals and digits take turns among them as in no name: a name in camel case has two turns in a
// word of five letters or so.
func isTangled(s string) bool {
	const least, turnsOf100 = 30, 45
	kind := func(c byte) int {
		switch {
		case c <= '9':
			return 1
		case c <= 'Z':
			return 2
		}
		return 4
	}
	turns, kinds, n := 0, 0, 0
	for ; n < len(s) && alnum[s[n]]; n++ {
		kinds |= kind(s[n])
		if n > 0 && kind(s[n]) != kind(s[n-1]) {
			turns++
		}
	}
	return n >= least && kinds == 1|2|4 && 100*turns >= turnsOf100*n
}

// isOneByte reports whether a text is one byte over and over.
func isOneByte(s string) bool { return strings.Trim(s, s[:1]) == "" }

// isWordEnd reports whether no letter or digit stands at a position.
func isWordEnd(r *reader, at int) bool { return !alnum[r.Byte(at)] }

// run returns where the bytes of an alphabet end that start at a position, and how many there are.
// Colours, invisible characters and line breaks that a terminal or a mail has put into them do not
// end and do not count.
func (r *reader) run(at int, set *alphabet, least, most int) (end, n int) {
	w := wrap{from: at, at: at, end: at, set: set, least: least, most: most}
	r.follow(&w)
	return w.end, w.n
}

// bodyRun is run for the body of a token of a family. Tokens often stand below one another, and
// each of them may go on with the next. So that a body that cannot be a token is not followed from
// every one of them, it ends before a line that only stands for a value, and goes on to no line
// behind one. One that a break parts has no bytes if its beginning has not the look of the family.
func (r *reader) bodyRun(at int, f *Family) (end, n int) {
	w := wrap{from: at, at: at, end: at, set: f.Body, least: f.Min, most: f.Max, family: f}
	r.follow(&w)
	return w.end, w.n
}

// A wrap is how far a token is known that may go on behind line breaks.
type wrap struct {
	from, at    int // where it begins, and what is to be read next
	end, n      int // where it ends, and how many bytes it has
	count       int // with what may turn out to stand behind the end
	set         *alphabet
	least, most int
	family      *Family // nil: any text

	feed  int // the position behind its last line feed, or 0
	width int // bytes since then, without what is transparent

	before       byte // the byte before at, or 0 behind a break
	same         int  // how often it stood there in succession, but for the first
	filler       bool // it only stands for a value
	lastEnd, was int  // end and n before the last break; 0: there was none

	known *wrap // where what begins within the same text may go on, or nil
}

// move notes that the positions in the buffer have moved down.
func (w *wrap) move(by int) {
	w.from, w.at, w.end, w.feed = w.from-by, w.at-by, w.end-by, w.feed-by
}

// A plainRun is a run of bytes of an alphabet without a break, as far as it was read. Tokens that
// are glued together begin at many places within one, and each of them goes on to its end.
type plainRun struct {
	set      *alphabet
	from, at int // where it begins, and what is to be read next
	end      int // behind its last byte that may end a token
	same     int // how often its last byte stood there in succession, but for the first
	filler   int // the last position that has a byte for the leastFiller-th time or more; 0: none
}

// runs are the runs that were read last.
type runs struct {
	all  [4]plainRun
	next int // the oldest
}

// add adds a run, in the place of one that it goes on from, or of the oldest.
func (s *runs) add(made plainRun) {
	if one := s.of(made.set, made.from); one != nil {
		*one = made
		return
	}
	s.all[s.next] = made
	s.next = (s.next + 1) % len(s.all)
}

// of returns the run of an alphabet that has a position, or nil.
func (s *runs) of(set *alphabet, at int) *plainRun {
	for i := range s.all {
		if one := &s.all[i]; one.set == set && one.from <= at && at < one.at {
			return one
		}
	}
	return nil
}

// followRun reads the run that a token begins with.
func (r *reader) followRun(w *wrap) {
	last := plainRun{set: w.set, from: w.from}
	if r.runs != nil {
		if one := r.runs.of(w.set, w.at); one != nil && r.resume(w, one) {
			last.end, last.filler = one.end, one.filler
		}
	}
	begin := w.at
	for w.at < len(r.S) && w.set[r.S[w.at]] && r.S[w.at] != '=' {
		r.take(w, r.S[w.at])
		if w.before != '.' && w.before != ',' {
			last.end = w.at
		}
		if w.same >= leastFiller && isFillerByte(w.before) {
			last.filler = w.at - 1
		}
	}
	r.Read(w.at)
	const least = 64 // bytes, below which it saves nothing to remember a run
	if r.runs != nil && w.at-begin >= least {
		last.at, last.same = w.at, w.same
		r.runs.add(last)
	}
}

// resume takes a token of which nothing was read to the end of a run that is known there. It
// reports false if that has to be read.
func (r *reader) resume(w *wrap, one *plainRun) bool {
	if one.at > len(r.S) || one.at-w.from <= w.least {
		return false
	}
	r.Read(one.at)
	w.at, w.count, w.width = one.at, one.at-w.from, one.at-w.from
	w.before, w.same = r.S[one.at-1], min(one.same, w.count-1)
	w.filler = one.filler-leastFiller >= w.from
	w.end = max(one.end, w.from+w.least-1)
	w.n = w.end - w.from
	return true
}

// follow reads a token from where it is known to its end.
func (r *reader) follow(w *wrap) {
	if w.at == w.from {
		r.followRun(w)
	}
	for {
		c := r.Byte(w.at)
		switch {
		case w.set[c] && !r.Ended(w.at):
			if c == '=' && r.softBreak(w.at) > 0 {
				if !r.goOn(w) {
					return
				}
				continue
			}
			if !r.take(w, c) {
				return
			}
			continue
		case c >= ' ' && c < 0x7F && c != '\\' && c != '=':
			return
		}
		if next := r.transparentEnd(w.at); next > w.at {
			w.at = next
			r.keep(w)
			continue
		}
		if !r.goOn(w) {
			return
		}
	}
}

// take adds a byte to a token. It reports whether the token may go on.
func (r *reader) take(w *wrap, c byte) bool {
	if c != w.before {
		w.before, w.same = c, 0
	} else if w.same++; w.same >= leastFiller && isFillerByte(c) {
		w.filler = true
	}
	w.at++
	w.count++
	w.width++
	if c != '.' && c != ',' || w.least > w.count {
		w.end, w.n = w.at, w.count
	}
	if f := w.family; f != nil && w.at-w.from > w.count {
		return w.mayGoOn(f, r.S[w.from:w.at])
	}
	return true
}

// mayGoOn reports whether the body of a token of a family, which something parts, may go on. If it
// does not, mayGoOn sets its end.
func (w *wrap) mayGoOn(f *Family, text string) bool {
	switch {
	case w.filler && w.lastEnd > 0 && w.was >= w.least:
		w.end, w.n = w.lastEnd, w.was
	case w.filler,
		w.most == 0 && w.count == mostWeighed && !f.hasLook(plain(text)):
		w.end, w.n = w.from, 0
	default:
		return w.most == 0 || w.count < w.most+mostWeighed
	}
	return false
}

// goOn takes a token to where it goes on behind a line break. It reports whether it does.
func (r *reader) goOn(w *wrap) bool {
	if w.filler && w.family != nil {
		return false
	}
	next := r.continued(w)
	if next <= w.at {
		return false
	}
	if i := strings.LastIndexByte(r.S[w.at:next], '\n'); i >= 0 {
		w.feed, w.width = w.at+i+1, 0
	}
	w.width += len(plain(r.S[max(w.at, w.feed):next]))
	w.lastEnd, w.was = w.end, w.n
	w.at, w.before, w.same = next, 0, 0
	r.keep(w)
	return true
}

// keep keeps how far a token is known for those that begin within it, unless the end of what may be
// read had a part in that.
func (r *reader) keep(w *wrap) {
	if w.known != nil && !r.Ends() {
		*w.known = *w
		w.known.known = nil
	}
}

// continued returns where a token goes on that a line break has parted, or 0.
func (r *reader) continued(w *wrap) int {
	next := r.softBreak(w.at)
	if next == 0 || w.count < 2 || w.most > 0 && w.count >= w.most {
		return 0
	}
	next = r.Skip(next, " \t>+|")
	stop := next
	for !r.Ended(stop) && w.set[r.S[stop]] && stop-next < 512 {
		stop++
	}
	part := r.S[next:stop]
	switch c := r.Byte(stop); {
	case part == "" || c == ':' || c == '=' && !w.set['='] && r.softBreak(stop) == 0:
		return 0
	case w.count < w.least || w.most > 0:
		return next
	case !isPart(part):
		return 0
	case w.feed > 0 && len(part) > w.width+1+8:
		return 0 // a line is as long as the one before it, but for the first
	}
	return next
}

// isPart reports whether a line looks like a part of a token: not like a word or a number.
func isPart(s string) bool {
	lower, upper, digit := countKinds(s)
	if s != "" && s[0] >= 'A' && s[0] <= 'Z' { // a word may begin so
		upper--
	}
	return digit > 0 && lower+upper > 0 || lower > 0 && upper > 1
}

// softBreak returns the position behind a line break that stands at a position, also behind the
// mark of a mail or a shell, or behind "\n" as JSON writes it. It returns 0 if there is none.
func (r *reader) softBreak(at int) int {
	i := at
	if c := r.Byte(i); c == '=' || c == '\\' && (r.Byte(i+1) == '\n' || r.Byte(i+1) == '\r') {
		i++
	}
	if next := r.Break(i); next > i {
		return next
	}
	if i == at && r.Has(i, `\n`) {
		return i + 2
	}
	if i == at && r.Has(i, `\r\n`) {
		return i + 4
	}
	return 0
}

// shapeEnd returns where a token ends that is known by its shape and not by its beginning, or 0.
func (r *reader) shapeEnd(start int) int {
	if r.Has(start, "eyJ") {
		if end := r.headEnd(start); end-start >= 11 {
			return r.partsEnd(end, 8)
		}
		return 0
	}
	if r.Byte(start) == 'F' && r.Has(start, "FlyV1 fm") {
		return r.run1(start+len("FlyV1 "), base64Std)
	}
	return 0
}

// headEnd returns where the first part of a JSON web token ends that starts at a position. Tokens
// of which only the first part stands there may stand below one another. Each of them goes on with
// the others, so that one goes on where the one before it is known to have been.
func (r *reader) headEnd(start int) int {
	w := wrap{from: start, at: start, end: start, set: word, known: r.head}
	if k := r.head; k != nil && k.from <= start && start < k.at {
		w.at, w.end, w.n, w.count = k.at, k.end, k.at-start, k.at-start
		if k.feed > start {
			w.feed, w.width = k.feed, k.width
		}
	}
	r.follow(&w)
	return w.end
}

// run1 is run of any length, without the number.
func (r *reader) run1(at int, set *alphabet) int {
	end, _ := r.run(at, set, 0, 0)
	return end
}

// partsEnd returns where the parts end that follow a first one, with dots between them and so many
// bytes each at least. At most four of them count. It returns 0 if not even one follows.
func (r *reader) partsEnd(end, least int) int {
	parts := 0
	for ; parts < 4 && r.Byte(end) == '.'; parts++ {
		at := end + 1
		if r.Byte(at) == '.' && parts == 0 {
			at++ // an empty part of an encrypted token
		}
		next := r.run1(at, base64Url)
		if next-at < least {
			break
		}
		end = next
	}
	if parts == 0 {
		return 0
	}
	return end
}

// longEnd returns where a token ends that is known by what stands in the middle or at the end of a
// long word. The word stands from start to end. It returns 0 for any other word.
func (r *reader) longEnd(start, end int) int {
	w := r.S[start:end]
	n := len(w)
	switch c := r.Byte(end); {
	case c == '.' && n >= 23 && n <= 28 && strings.IndexByte("MNO", w[0]) >= 0 && looksRandom(w):
		middle := r.run1(end+1, word) // the token of a Discord bot
		if middle-end-1 >= 5 && middle-end-1 <= 7 && r.Byte(middle) == '.' {
			if last := r.run1(middle+1, word); last-middle-1 >= 25 {
				return last
			}
		}
	case c == '.' && n == 14 && r.Has(end, ".atlasv1."):
		return r.run1(end+len(".atlasv1."), base64Url)
	case c == ':' && r.Has(end, ":APA91b"):
		return r.run1(end+1, word)
	case c == '.' && n == 32 && hasOnly(w, hexLower):
		if last := r.run1(end+1, alnum); last-end-1 == 16 { // Zhipu
			return last
		}
	case c == ':' && n == 36 && hasOnly(w, uuid):
		if r.Has(end, ":fx") && isWordEnd(r, end+3) { // DeepL
			return end + 3
		}
		if last := r.run1(end+1, hexLower); last-end-1 == 32 { // fal
			return last
		}
	case c == ':' && n == 34 && strings.HasPrefix(w, "AC") && hasOnly(w[2:], hexLower):
		if last := r.run1(end+1, hexLower); last-end-1 == 32 { // Twilio
			return last
		}
	case c == ':' && n == 24 && hasOnly(w, hexLower):
		if last := r.run1(end+1, hexLower); last-end-1 == 64 { // Ghost
			return last
		}
	case c == '~' || c == '.':
		return r.azureEnd(start)
	case n >= 36 && n <= 38 && hasOnly(w[:32], hexLower) && strings.HasPrefix(w[32:], "-us"):
		return end // Mailchimp
	case n == 52 && strings.Contains(w, "AzSe"), n >= 54 && strings.Contains(w, "AzFu"),
		n >= 80 && strings.Contains(w, "JQQJ9"), n >= 76 && strings.Contains(w, "ACDb"):
		return r.run1(end, base64Std)
	case n == 50 && strings.Contains(w, "msh") && strings.Contains(w, "jsn"):
		return end // RapidAPI
	case n == 40 && strings.HasSuffix(w, "NRAL") && hasOnly(w[:36], lowerNum):
		return end // New Relic
	case n == 40 && strings.HasSuffix(w, "_mmk") && looksRandom(w[:36]):
		return end // MaxMind
	case n > 40 && strings.Contains(w, "T3BlbkFJ"):
		return end // OpenAI, whatever it begins with
	}
	return 0
}

// azureEnd returns where the secret of an Azure application ends that starts at a position, or 0.
func (r *reader) azureEnd(start int) int {
	end := start
	for !r.Ended(end) && (word[r.S[end]] || r.S[end] == '.' || r.S[end] == '~') && end-start < 64 {
		end++
	}
	w := strings.TrimRight(r.S[start:end], ".")
	i := strings.Index(w, "Q~")
	if i < 1 || i > 5 || w[i-1] < '6' || w[i-1] > '9' || len(w)-i < 31 || len(w)-i > 38 {
		return 0
	}
	return start + len(w)
}

// botToken returns where the id of a Telegram bot starts in a word that is six or more digits,
// alone or after "bot". It returns -1 for any other word.
func botToken(w string) int {
	from := 0
	if strings.HasPrefix(w, "bot") {
		from = len("bot")
	}
	if len(w)-from < 6 {
		return -1
	}
	for i := from; i < len(w); i++ {
		if w[i] < '0' || w[i] > '9' {
			return -1
		}
	}
	return from
}

// hasOnly reports whether all bytes of a text are of an alphabet.
func hasOnly(s string, set *alphabet) bool {
	for i := range len(s) {
		if !set[s[i]] {
			return false
		}
	}
	return true
}
