package policy

// Attachments say what sub-agents may be given beside their task, and are
// tools.sessions_spawn.attachments in the configuration. The zero Attachments are the defaults:
// programs may attach files, and models may not.
type Attachments struct {
	// Enabled says that models may attach files to what they spawn. A program always may.
	Enabled bool

	MaxFiles      int // of one spawn: from 1, default 50
	MaxFileBytes  int // of one file: from 1, default 1 MiB
	MaxTotalBytes int // of all files of one spawn: from 1, default 5 MiB

	// Retain, retainOnSessionKeep, leaves what was written into a work directory there until the
	// session is archived. False: until the end of the run has arrived. With a spawn that asks for
	// the session to be deleted it has no effect.
	Retain bool
}

// The defaults of Attachments.
const (
	defaultAttachedFiles     = 50
	defaultAttachedFileBytes = 1 << 20
	defaultAttachedBytes     = 5 << 20
)

// OrDefault returns a with the defaults in place of zeros.
func (a Attachments) OrDefault() Attachments {
	for _, f := range []struct {
		value    *int
		standard int
	}{
		{&a.MaxFiles, defaultAttachedFiles},
		{&a.MaxFileBytes, defaultAttachedFileBytes},
		{&a.MaxTotalBytes, defaultAttachedBytes},
	} {
		if *f.value == 0 {
			*f.value = f.standard
		}
	}
	return a
}

// MayAttach returns a *[Refusal] if the spawn of a model or of a program may not have attachments.
func (r *Rules) MayAttach(byModel bool) error {
	if byModel && !r.Attachments.Enabled {
		return attachmentsPlace.dot("Enabled", "enabled").refuse(
			RuleAttachments, "attachments", "none")
	}
	return nil
}

func (v *validator) attachments(a Attachments) {
	v.within(attachmentsPlace.dot("MaxFiles", "maxFiles"), a.MaxFiles, maxLimit)
	v.within(attachmentsPlace.dot("MaxFileBytes", "maxFileBytes"), a.MaxFileBytes, maxLimit)
	v.within(attachmentsPlace.dot("MaxTotalBytes", "maxTotalBytes"), a.MaxTotalBytes, maxLimit)
}
