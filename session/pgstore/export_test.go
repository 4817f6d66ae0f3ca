package pgstore

import "github.com/offshoot-sdk/offshoot/session"

// Schema returns the schema of a Store.
func Schema(s *session.Store) string { return s.Journal.(journal).schema }
