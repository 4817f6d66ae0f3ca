package spawn

// LiftLimits lets benchmarks measure the machinery instead of the limits of policy, which no configuration can lift this far.
func LiftLimits(s *Supervisor) {
	s.cfg.Rules.Subagents.MaxChildren = 1 << 30
	s.cfg.Rules.Subagents.MaxSpawnDepth = 5
}

// SlotsUsed returns how many slots of the lane are taken.
func (s *Supervisor) SlotsUsed() int { return s.lane.Used() }

// NewID returns an id as the Supervisor makes them.
func (s *Supervisor) NewID() string { return s.newID() }
