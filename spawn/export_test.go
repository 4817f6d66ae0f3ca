package spawn

// LiftLimits lets benchmarks measure the machinery instead of the limits of policy, which no configuration can lift this far.
func LiftLimits(s *Supervisor) {
	s.cfg.Rules.Subagents.MaxChildren = 1 << 30
	s.cfg.Rules.Subagents.MaxSpawnDepth = 5
}
