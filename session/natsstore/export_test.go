package natsstore

// MayPass reports whether a request that has failed so is sent again.
func MayPass(err error) bool { return mayPass(err) }
