package announce

import "github.com/offshoot-sdk/offshoot/internal/secret"

// Redact masks credentials in a text: the tokens of more than 450 kinds that are known by how they
// begin, the values of names that say that they are secret, in the spelling of shells, programs,
// files, markup, queries and commands, the credentials of headers, private keys, passwords in
// addresses, and the addresses of webhooks. Colours of a terminal, invisible characters and the
// line breaks of a terminal or a mail within a token do not hide it. docs/redaction.md lists what
// is masked and what is not.
//
// A credential of less than 18 runes becomes "***". A longer one keeps its first six and last four
// runes, with an ellipsis between them. Passwords in URLs and the secret parts of webhook addresses
// always become "***". The lines of a private key become "…redacted…", and a key on one line "***".
//
// What only stands for a secret stays: a reference such as $NAME or os.Getenv("NAME"), a
// placeholder such as <your-key>, a word about it, a count, a path. So do UUIDs and digests, and
// the key of a session behind a name that ends in sessionKey.
//
// Redact is meant for a text that a reader sees. Do not use it on what a program or a model works
// on, because a mask that is written back destroys the secret. Redact knows names and forms
// only: it cannot find a secret that looks like any other word.
//
// What tells that a value is secret is looked for in the next 16 KB. A value that is longer is
// masked as if it ended there, and the rest of it is removed, up to the next white space or quote,
// the end of the header or the last line of the key.
//
// Redact takes time linear in the text. It leaves its own masks alone. Where parts of credentials
// of several kinds stand side by side, a second Redact may mask what is beside a mask, too.
func Redact(text string) string { return secret.Mask(text) }
