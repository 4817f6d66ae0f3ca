// Package workdir decides which directory a session works in, and opens it. A directory is named
// by a work directory and a path below it. It never leads out of the work directory, links
// included.
package workdir
