package contexttest

import (
	"regexp"
	"slices"
	"strings"
)

// secretPatterns match well-known credentials, and assignments to names such as password.
var secretPatterns = []*regexp.Regexp{
	keyBegins,
	regexp.MustCompile(`\b(sk|pk|rk)[-_][A-Za-z0-9_-]{16,}`),
	regexp.MustCompile(
		`\bgh[pousr]_[A-Za-z0-9]{20,}|\bgithub_pat_[A-Za-z0-9_]{20,}|\bglpat-[A-Za-z0-9_-]{16,}`,
	),
	regexp.MustCompile(`\bxox[abprs]-[A-Za-z0-9-]{10,}`),
	regexp.MustCompile(`\b(AKIA|ASIA)[A-Z0-9]{16}\b`),
	regexp.MustCompile(`\bAIza[A-Za-z0-9_-]{30,}`),
	regexp.MustCompile(`\b\d{8,10}:AA[A-Za-z0-9_-]{30,}`),
	regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}`),
	regexp.MustCompile(
		`(?i)\b(password|passwd|passphrase|secret|token|api[-_ ]?key)\b["'` + "`" + `]?\s*[:=]\s*["'` + "`" + `]?[^\s"'` + "`" + `<>{}$(]{8,}`,
	),
	regexp.MustCompile(`[a-z][a-z0-9+.-]*://[^\s/:@]+:[^\s/:@<>{}$]{4,}@`),
}

var (
	keyBegins = regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----`)
	keyEnds   = regexp.MustCompile(`-----END [A-Z ]*PRIVATE KEY-----`)
	// keyLine is a line within a private key whose beginning may have been cut off.
	keyLine = regexp.MustCompile(`^\s*[A-Za-z0-9+/]{60,}={0,2}\s*$`)
)

// looksSecret reports whether a line looks as if it held a credential.
func looksSecret(line string) bool {
	return slices.ContainsFunc(
		secretPatterns, func(re *regexp.Regexp) bool { return re.MatchString(line) },
	)
}

// notShown stands for a line that does not belong into a log.
const notShown = "[not shown: this line looks like a password or key]"

// forLog returns a text as a failure may show it: without the lines that look as if they held a
// credential, and without the rest of a private key that has begun. A log of CI is read by more
// people than a workspace, and is kept for longer.
func forLog(text string) string {
	var b strings.Builder
	inKey := false
	for line := range strings.Lines(text) {
		body := strings.TrimRight(line, "\r\n")
		secret := inKey || looksSecret(body) || keyLine.MatchString(body)
		inKey = (inKey || keyBegins.MatchString(body)) && !keyEnds.MatchString(body)
		if secret {
			b.WriteString(notShown)
			line = line[len(body):]
		}
		b.WriteString(line)
	}
	return b.String()
}

// diffForLog is Diff for a failure. It compares what forLog leaves, and says so if the texts differ
// in nothing else.
func diffForLog(a, b string) string {
	if a == b {
		return ""
	}
	if d := Diff(forLog(a), forLog(b)); d != "" {
		return d
	}
	return "they differ only in lines that look like a password or key, which are not shown here\n"
}
