// Package session says who is who: keys, lineage, journals and transcripts.
package session
