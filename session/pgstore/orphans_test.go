package pgstore

// Every test has pages of orphans that the kit fills.
func init() { maxOrphans = 20 } //nolint:gochecknoinits // the tests are of another package
