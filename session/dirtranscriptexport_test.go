package session

// KnownTranscripts returns of how many transcripts something is kept in memory.
func KnownTranscripts(s *Store) int {
	t := s.Transcripts.(*dirTranscripts)
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.known)
}
