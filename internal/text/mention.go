package text

import (
	"regexp"
	"strings"
)

// WithoutMentions returns s with full-width signs in what a chat may take for a mention of people,
// of a role or of a whole channel, such as @everyone, <@id>, <!here>, <users/all>, <at>, [~name]
// and links to a person. The entity of a sign counts as the sign. An address such as
// bot@example.org stays as it is, and so do the lines and other mark-up of a log.
func WithoutMentions(s string) string {
	return mention.ReplaceAllStringFunc(s, fullWidth.Replace)
}

// mention finds the sign of a mention with the character behind it, and what some chats take for a
// mention also within a word.
var mention = regexp.MustCompile(
	`(?i)(?:^|[^\pL\pN._+@-])(?:@|` + atEntity + `)+[\pL\pN_!&]|` +
		`(?:@|` + atEntity + `)(?:everyone|here|channel|all|room)|` +
		`(?:<|` + openEntity + `)(?:!\pL|@|users/|/?at\b|#)|` +
		`\[~|` + // Jira
		`tg://|` +
		`matrix\.to/#/(?:@|!|%)|matrix:u/`)

// What HTML and Markdown also read as the signs "@" and "<".
const (
	atEntity   = `&(?:#0*64|#x0*40|commat);`
	openEntity = `&(?:#0*60|#x0*3c|lt);?`
)

// fullWidth replaces what makes a mention one.
var fullWidth = strings.NewReplacer(
	"@", "＠", "<", "＜", "&", "＆", "~", "～", "://", "：//", "#", "＃", "matrix:", "matrix：",
	"MATRIX:", "MATRIX：")
