// Package few has a map for what there is a great many of, each with an entry or two: a tree of a
// chat has one session, one turn at a time and the ids of few messages. A built-in map has a header
// of 48 bytes and room for eight entries with its first one, which was a third of an idle chat.
package few
