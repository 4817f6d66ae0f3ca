package spawn

import "log/slog"

// logBeside logs in a goroutine of its own, for the owners of trees: the Logger is code of the
// caller, which may hang, or end its goroutine. If no goroutine can be started any more, it logs in
// place.
func (s *Supervisor) logBeside(level slog.Level, text string, args ...any) {
	log := func() { s.log.Log(s.detachedCtx, level, text, args...) }
	if !s.workers.start(taskFunc(log)) {
		log()
	}
}
