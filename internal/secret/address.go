package secret

import "strings"

// An address is one that anyone who knows it may use, such as that of a webhook.
type address struct {
	Name  string // the service
	Begin string // the host and the path before the secret part; * is any part of a path or a host
	Min   int    // bytes of the secret part, at least
}

// addresses are such addresses, from the documentation of the services.
var addresses = []address{
	{"Slack webhook", "hooks.slack.com/services/", 1},
	{"Slack workflow", "hooks.slack.com/workflows/", 8},
	{"Slack trigger", "hooks.slack.com/triggers/", 8},
	{"Discord webhook", "discord.com/api/webhooks/*/", 1},
	{"Discord webhook, old host", "discordapp.com/api/webhooks/*/", 1},
	{"Microsoft Teams webhook", "webhook.office.com/webhookb2/", 20},
	{"Microsoft Teams webhook, old host", "outlook.office.com/webhook/", 20},
	{"Zapier webhook", "hooks.zapier.com/hooks/catch/", 6},
	{"Make webhook", "make.com/", 20},
	{"IFTTT webhook", "maker.ifttt.com/trigger/*/with/key/", 8},
	{"Feishu webhook", "open.feishu.cn/open-apis/bot/v2/hook/", 20},
	{"Lark webhook", "open.larksuite.com/open-apis/bot/v2/hook/", 20},
	{"PagerDuty integration", "events.pagerduty.com/integration/", 20},
	{"Datadog intake", "datadoghq.com/v1/input/", 20},
	{"Loggly input", "loggly.com/inputs/", 20},
	{"Loggly bulk input", "loggly.com/bulk/", 20},
	{"Infura endpoint", "infura.io/v3/", 20},
	{"Alchemy endpoint", "alchemy.com/v2/", 20},
	{"Alchemy endpoint, old host", "alchemyapi.io/v2/", 20},
	{"QuickNode endpoint", "quiknode.pro/", 20},
	{"Ankr endpoint", "rpc.ankr.com/*/", 20},
	{"Healthchecks ping", "hc-ping.com/", 20},
	{"Dead Man's Snitch", "nosnch.in/", 8},
	{"private calendar of Google", "calendar.google.com/calendar/ical/*/private-", 20},
	{"Vercel deploy hook", "api.vercel.com/v1/integrations/deploy/*/", 6},
	{"Netlify build hook", "api.netlify.com/build_hooks/", 20},
	{"Cloudflare Pages deploy hook", "api.cloudflare.com/client/v4/pages/webhooks/deploy_hooks/", 20},
	{"n8n cloud webhook", "app.n8n.cloud/webhook/", 20},
	{"Pipedream source", "m.pipedream.net/", 100},
	{"Opsgenie heartbeat", "api.opsgenie.com/v1/json/", 30},
	{"UptimeRobot heartbeat", "heartbeat.uptimerobot.com/", 20},
	{"Better Stack heartbeat", "uptime.betterstack.com/api/v1/heartbeat/", 16},
	{"Cronitor ping", "cronitor.link/p/", 20},
	{"Mattermost cloud webhook", "cloud.mattermost.com/hooks/", 20},
	{"Rocket.Chat cloud webhook", "rocket.chat/hooks/", 20},
	{"Buildkite webhook", "webhook.buildkite.com/deliver/", 20},
	{"Amazon Chime webhook", "hooks.chime.aws/incomingwebhooks/", 20},
	{"WeCom robot", "qyapi.weixin.qq.com/cgi-bin/webhook/send?key=", 20},
	{"webhook of a Mattermost or Rocket.Chat server", "hooks/", 26},
	{"webhook.site bin", "webhook.site/", 36},
}

// hostsOf has the addresses by the first word of their host.
var hostsOf = func() map[string][]address {
	hosts := make(map[string][]address)
	for _, a := range addresses {
		first := a.Begin[:strings.IndexAny(a.Begin, ".-_/")]
		if i := strings.IndexByte(a.Begin, '.'); i > 0 && strings.IndexByte(a.Begin[:i], '-') > 0 {
			first = a.Begin[:i]
		}
		hosts[first] = append(hosts[first], a)
	}
	return hosts
}()

// maskAddress masks the secret part of an address whose host begins at a position.
func (r *reader) maskAddress(start int) {
	var buf [maxKeyword]byte
	end := r.wordEnd(start)
	for _, a := range hostsOf[string(lowered(&buf, r.S[start:end]))] {
		at := r.placeEnd(start, a.Begin)
		if at == 0 {
			continue
		}
		if a.Begin == ownHooks && !r.isOwnHook(start, at) {
			continue
		}
		stop := at
		for !r.Ended(stop) {
			if isWordByte[r.S[stop]] || strings.IndexByte(".@=~:", r.S[stop]) >= 0 {
				stop++
			} else if next := r.slashEnd(stop); next > stop {
				stop = next
			} else {
				break
			}
		}
		for stop > at && strings.IndexByte("./:", r.S[stop-1]) >= 0 {
			stop--
		}
		if v := r.S[at:stop]; len(v) >= a.Min && v != "" && !isFiller(v) && !isPlaceholder(v) {
			r.replace(at, stop, "***", bareUntil)
			return
		}
	}
}

// ownHooks is the path of the webhooks of a server that an organization runs itself.
const ownHooks = "hooks/"

// isOwnHook reports whether the path at a position is a webhook of such a server, which has any
// host: ids of letters and digits in disorder.
func (r *reader) isOwnHook(start, at int) bool {
	if start == 0 || r.S[start-1] != '/' {
		return false
	}
	stop := r.run1(at, alnum)
	return stop-at >= 17 && looksRandom(r.S[at:stop]) && (hasOnly(r.S[at:stop], lowerNum) ||
		r.Byte(stop) == '/')
}

// slashEnd returns the position behind a slash at a position, also as an address within an address
// or JSON writes it. It returns the position itself if none stands there.
func (r *reader) slashEnd(at int) int {
	switch r.Byte(at) {
	case '/':
		return at + 1
	case '\\':
		if r.Byte(at+1) == '/' {
			return at + 2
		}
	case '%':
		if r.HasFold(at, "%2f") {
			return at + 3
		}
		if r.HasFold(at, "%252f") {
			return at + 5
		}
	}
	return at
}

// pathEnd returns the position behind a path in lower case that stands at a position, in any letter
// case and with slashes as slashEnd knows them, or 0.
func (r *reader) pathEnd(at int, path string) int {
	for {
		before, after, found := strings.Cut(path, "/")
		if !r.HasFold(at, before) {
			return 0
		}
		at += len(before)
		if !found {
			return at
		}
		next := r.slashEnd(at)
		if next == at {
			return 0
		}
		at, path = next, after
	}
}

// placeEnd returns the position behind a place that begins at a position, or 0 if another stands
// there.
func (r *reader) placeEnd(at int, place string) int {
	for {
		before, after, found := strings.Cut(place, "*")
		if at = r.pathEnd(at, before); at == 0 || !found {
			return at
		}
		from := at
		for !r.Ended(at) && (isWordByte[r.S[at]] || strings.IndexByte(".%@", r.S[at]) >= 0) {
			at++
		}
		if at == from {
			return 0
		}
		place = after
	}
}

// maskUserinfo masks the password in scheme://user:password@host, given that the place has a ':'.
func (r *reader) maskUserinfo() {
	if !r.Has(r.at, "://") {
		return
	}
	r.next = r.at + len("://")
	isWeb := endsFold(r.before(r.at), "http") || endsFold(r.before(r.at), "https")
	colon, last := 0, 0
	for i := r.next; ; i++ {
		if i = r.nextOf(i, r.next+512, userinfoStops); i == r.next+512 || r.Ended(i) {
			break
		}
		switch r.S[i] {
		case ':':
			if colon == 0 {
				colon = i
			}
			continue
		case '@':
			last = i
			continue
		case '/', '?', '#':
			if isWeb || colon == 0 || last > 0 || isNumber(r.S[colon+1:i]) || i == colon+1 {
				r.maskPassword(colon, last)
				return
			}
			continue
		case ' ', '\t', '\r', '\n', '"', '\'', '<', '>', '`', '\\', '|', ')', ',', '(', '{', '[',
			']':
			if strings.IndexByte(",({[])|", r.S[i]) >= 0 && colon > 0 && last == 0 {
				continue
			}
			r.maskPassword(colon, last)
			return
		}
	}
	r.maskPassword(colon, last)
}

// userinfoStops are the bytes that maskUserinfo looks at.
var userinfoStops = letters(":@/?# \t\r\n\"'<>`\\|),({[]")

// nextOf returns the position of the first of some bytes from a position on, or a later position or
// the end of the text where there is none before.
func (r *reader) nextOf(at, before int, bytes *alphabet) int {
	end := min(before, len(r.S))
	for at < end && !bytes[r.S[at]] {
		at++
	}
	r.Read(at)
	return at
}

// endsFold reports whether a text ends with another one, in any letter case.
func endsFold(s, end string) bool {
	return len(s) >= len(end) && strings.EqualFold(s[len(s)-len(end):], end)
}

// maskPassword masks the password between a colon and an '@'.
func (r *reader) maskPassword(colon, at int) {
	if colon == 0 && at > r.next {
		host := r.Within(at, 48)
		v := r.S[r.next:at]
		isDSN := strings.Contains(host.S[at:host.Any(at, "/\n ")], "sentry")
		r.Join(host)
		if len(v) >= 20 && looksSecret(v) && hasDense(v) && !isDSN {
			r.replace(r.next, at, "***", "")
		}
		return
	}
	if colon == 0 || at <= colon+1 || strings.ContainsAny(r.S[colon:at], "?#") {
		return
	}
	v := r.S[colon+1 : at]
	if isMask(v) {
		r.next = at // where it went on behind the password
		return
	}
	if isReference(v) || isPlaceholder(v) || isFiller(v) {
		return
	}
	switch strings.ToLower(v) {
	case "password", "pass", "passwd", "pwd", "pw", "secret", "token":
		return
	}
	r.replace(colon+1, at, "***", "")
}

// maskEscapedUserinfo masks the password in the address of a user within a query, in which the
// colon behind the word from start to end is %3A. It reports whether there is one.
func (r *reader) maskEscapedUserinfo(start, end int) bool {
	const most = 160
	if !endsFold(r.before(start), "%2f%2f") {
		return false
	}
	part := r.Within(end, most)
	at := end + len("%3A")
	stop := part.Any(at, " \t\r\n\"'&<>#")
	for i := at; i < stop; i++ { // where the host ends
		if part.S[i] == '%' && (part.HasFold(i, "%2f") || part.HasFold(i, "%3f") ||
			part.HasFold(i, "%23")) {
			stop = i
		}
	}
	i := strings.LastIndex(part.S[min(at, stop):stop], "%40")
	r.Join(part)
	if i <= 0 {
		return false
	}
	v := r.S[at : at+i]
	if isMask(v) {
		r.next = at + i
		return true
	}
	if isReference(v) || isPlaceholder(v) || isFiller(v) || isNumber(v) {
		return false
	}
	r.replace(at, at+i, "***", "")
	return true
}

// visitPair decides about a word with a colon right behind it: the id of a bot, the user of an
// address without a scheme, or the beginning of a line of .pgpass. It reports whether it has masked
// something.
func (r *reader) visitPair(start, end int) bool {
	w := r.S[start:end]
	if r.maskBot(start, end, end+1) {
		return true
	}
	if r.maskPgpass(end); r.mask != "" {
		return true
	}
	const most = 160
	last := 0
	for i := end + 1; ; i++ {
		if i = r.nextOf(i, end+most, pairStops); i >= end+most {
			break
		}
		switch c := r.Byte(i); {
		case c == '@':
			last = i
			if r.endsAuthority(i+1, i == end+1) {
				v := r.S[end+1 : i]
				if v == "" || isReference(v) || isPlaceholder(v) || isFiller(v) || isMask(v) ||
					v[0] == '/' || strings.EqualFold(v, "password") {
					return false
				}
				switch strings.ToLower(w) {
				case "mailto", "acct", "sip", "sips", "xmpp", "npm", "git", "https", "http",
					"email", "from", "cc", "bcc", "image":
					return false
				}
				r.replace(end+1, i, "***", "")
				return true
			}
		case c <= ' ', c == '"', c == '\'', c == '`', c == '<', c == '>', c == '\\', c == ',' &&
			last == 0, c == '{' && i > end+1:
			return false
		}
	}
	return false
}

// pairStops are the bytes that visitPair looks at.
var pairStops = letters("\x00- \"'`<>\\,{@")

// maskBot masks the token of a Telegram bot, whose number is the word from start to end and whose
// secret stands behind a colon. It reports whether there is one.
func (r *reader) maskBot(start, end, secret int) bool {
	from := botToken(r.S[start:end])
	if from < 0 {
		return false
	}
	n := r.run1(secret, word)
	v := r.S[secret:n]
	if len(v) < 20 || isFiller(v) || len(v) < 30 && !hasDense(v) && !hasOnly(v, alnum) {
		return false
	}
	r.maskSpan(start+from, n, bareUntil)
	return true
}

// endsAuthority reports whether what stands at a position is what stands behind the '@' of the
// address of a database: tcp(host), or a host with a port or a path.
func (r *reader) endsAuthority(at int, isEmpty bool) bool {
	if isEmpty {
		return false
	}
	for _, w := range [...]string{
		"tcp(", "unix(", "udp(", "tcp6(", "pipe(", "cloudsql(", "(",
		"//",
	} {
		if r.HasFold(at, w) {
			return true
		}
	}
	end, dots, letter := at, 0, false
	for end-at < 100 && !r.Ended(end) && (isWordByte[r.S[end]] || r.S[end] == '.') {
		if r.S[end] == '.' {
			dots++
		} else if r.S[end] > '9' {
			letter = true
		}
		end++
	}
	host := strings.ToLower(r.S[at:end])
	if host == "" || host == "sha256" || !letter && dots != 3 {
		return false
	}
	switch r.Byte(end) {
	case ':':
		n := end + 1
		for n-end < 7 && r.Byte(n) >= '0' && r.Byte(n) <= '9' {
			n++
		}
		return n-end >= 3 && n-end <= 6 && !isNameByte[r.Byte(n)]
	case '/':
		return dots > 0 || host == "localhost" || host == "db"
	}
	return host == "localhost" || dots == 3 && !letter
}

// maskPgpass masks the password in a line of .pgpass, which has five fields: host, port, database,
// user and password.
func (r *reader) maskPgpass(end int) {
	port := r.Byte(end + 1)
	if port != '*' && (port < '0' || port > '9') {
		return
	}
	at := end + 1
	for port != '*' && at-end < 7 && r.Byte(at) >= '0' && r.Byte(at) <= '9' {
		at++
	}
	if port == '*' {
		at++
	}
	for range 2 {
		if r.Byte(at) != ':' {
			return
		}
		from := at + 1
		for at = from; at-from < 64 && (isWordByte[r.Byte(at)] || r.Byte(at) == '*' ||
			r.Byte(at) == '.') && !r.Ended(at); at++ {
		}
		if at == from || isNumber(r.S[from:at]) {
			return
		}
	}
	if r.Byte(at) != ':' {
		return
	}
	value := at + 1
	stop := r.Any(value, " \t\r\n\"'\\")
	if v := r.S[value:stop]; v != "" && !isMask(v) && !isReference(v) && !isFiller(v) &&
		!isPlaceholder(v) {
		r.maskSpan(value, stop, bareUntil)
	}
}
