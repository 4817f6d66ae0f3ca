package announce

import "github.com/offshoot-sdk/offshoot/internal/secret"

// Redact masks credentials in a text: assignments and fields whose name says that the value is
// secret, command line flags, authorization and cookie headers, private keys, passwords in URLs,
// webhook addresses, and the tokens of services that are known by their first characters.
//
// A credential of less than 18 runes becomes "***". A longer one keeps its first six and last four
// runes, with an ellipsis between them. Passwords in URLs and the secret parts of webhook addresses
// always become "***". The lines of a private key become "…redacted…", and a key on one line "***".
// References such as $NAME stay, and so does the key of a session behind a name that ends in
// sessionKey.
//
// Redact is meant for a text that a reader sees. Do not use it on what a program or a model works
// on, because a mask that is written back destroys the secret. Redact knows names and prefixes
// only: it cannot find a secret that looks like any other word.
//
// What tells that a value is secret is looked for in the next 16 KB. A value that is longer is
// masked as if it ended there, and the rest of it is removed, up to the next white space or quote,
// the end of the header or the last line of the key.
//
// Redact takes time linear in the text. It leaves its own masks alone: Redact(Redact(s)) equals
// Redact(s).
func Redact(text string) string { return secret.Mask(text) }
