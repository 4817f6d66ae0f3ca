package spawn_test

// lineMutants let the Store in a directory lose lines of transcripts, or say what is not so of
// them, on their way through the log.
var lineMutants = []mutant{
	{
		"lines: what a batch carries is in the log with it", "../session/dirstore/append.go",
		"lines := j.lines.ride(root)", "lines := (*ride)(nil)", "../session/dirstore",
		"TestLinesSurvivePowerLoss",
	},
	{
		"lines: a batch that fails leaves the lines to the next one", "../session/dirstore/carry.go",
		"\t\tif err != nil {\n\t\t\tcontinue\n",
		"\t\tif err != nil {\n\t\t\tr.l.drop(c, n)\n\t\t\tcontinue\n",
		"../session/dirstore", "TestCarriedLinesOutliveAFailedBatch",
	},
	{
		"lines: later lines take those that wait along", "../session/dirstore/lines.go",
		"before := l.takeAlone(lines.ref)", "before := (*ride)(nil)", "../session/dirstore",
		"TestLinesSurvivePowerLoss",
	},
	{
		"lines: those of another tree do not wait for this one", "../session/dirstore/carry.go",
		"c.root != root || ", "", "../session/dirstore", "TestCarrierPassesKit",
	},
	{
		"lines: a frame that was carried is needed", "../session/dirstore/carry.go",
		"\t\t\tr.l.noteLocked(c.parts[i].ref, at[i])\n", "", "../session/dirstore",
		"TestLinesSurvivePowerLoss|TestCarrierPassesKit",
	},
	{
		"lines: the log has what the file gets", "../session/dirstore/linefile.go",
		"\tif err := t.lines.sink(ref); err != nil {\n\t\treturn nil, logError(err)\n\t}\n" +
			"\tf, err := t.fileForLines(ref, x)\n",
		"\tf, err := t.fileForLines(ref, x)\n",
		"../session/dirstore", "TestCarrierPassesKit",
	},
	{
		"lines: what waits for a batch is put beside a file that was removed, once",
		"../session/dirstore/linefile.go",
		"\tif err := t.lines.sink(ref); err != nil {\n\t\treturn nil, logError(err)\n\t}\n" +
			"\tdir, err := t.makeAgentDir(ref, false)\n",
		"\tdir, err := t.makeAgentDir(ref, false)\n",
		"../session/dirstore", "TestCarriedLinesOfARemovedFileAreKept",
	},
	{
		"lines: Close says what it could not write", "../session/dirstore/linefile.go",
		"\tif !l.carries() {\n\t\treturn nil\n\t}\n", "\tif l.carries() || true {\n\t\treturn nil\n\t}\n",
		"../session/dirstore", "TestLinesSurviveFaults",
	},
	{
		"lines: a file is synced before its frames are dropped", "../session/dirstore/linefile.go",
		"errors.Join(f.Sync(), f.Close())", "errors.Join(f.Close())", "../session/dirstore",
		"TestLinesSurvivePowerLoss",
	},
	{
		"lines: the name of a file is synced before its frames are dropped",
		"../session/dirstore/linefile.go",
		"\t\tdirErr := t.fs.SyncDir(dir)\n", "\t\t_, dirErr := dir, error(nil)\n",
		"../session/dirstore", "TestLinesSurvivePowerLoss",
	},
	{
		"lines: the name of one file is synced before its frames are dropped",
		"../session/dirstore/linefile.go",
		"\tif err = t.fs.SyncDir(dir); err != nil {\n", "\tif _ = dir; err != nil {\n",
		"../session/dirstore", "TestLinesAreGroundedFirst|TestLinesSurvivePowerLoss",
	},
	{
		"lines: what comes while names are synced stays in the log", "../session/dirstore/lines.go",
		"f.spans, f.written, f.synced = f.spans[f.covered:], false, false",
		"f.spans, f.written, f.synced = nil, false, false",
		"../session/dirstore", "TestLinesThatComeDuringASyncOfTheirDirectory",
	},
	{
		"lines: names that could not be synced keep their frames", "../session/dirstore/linefile.go",
		"\t\tif dirErr == nil {\n", "\t\tif true {\n",
		"../session/dirstore", "TestDirectoryThatCannotBeSynced",
	},
	{
		"lines: a file that was written to since its sync is synced again",
		"../session/dirstore/lines.go",
		"f.written, f.second, f.synced = true, second, false", "f.written, f.second = true, second",
		"../session/dirstore", "TestLinesThatComeDuringASyncOfTheirDirectory",
	},
	{
		"lines: a compaction keeps the frames that are needed", "../session/dirstore/lines.go",
		"if c.frames = append(c.frames, f.spans...); len(f.spans) == 0 {", "if len(f.spans) == 0 {",
		"../session/dirstore", "TestLinesSurviveFaults|TestLinesSurvivePowerLoss",
	},
	{
		"lines: an append of lines is durable when it returns", "../session/dirstore/lines.go",
		"err := l.log.Write(records, func", "err := error(nil); go l.log.Write(records, func",
		"../session/dirstore", "TestLinesSurvivePowerLoss",
	},
	{
		"log: what is behind the room that a log has is made room again", "../internal/wal/log.go",
		"l.room -= int64(len(b)); l.room < 0", "l.room == 0", "../internal/wal", "TestRoom",
	},
	{
		"log: room lies behind the group", "../internal/wal/log.go",
		"makeRoom(f.f, end+int64(len(b)), room)", "makeRoom(f.f, end+int64(len(b))-1, room)",
		"../internal/wal", "TestRoom",
	},
	{
		"log: room is not torn", "../internal/wal/scan.go",
		"s.size, err = trimRoom(s.f, s.name, off, s.size)", "_, err = trimRoom(s.f, s.name, off, s.size)",
		"../internal/wal", "TestRoom|TestTornGroupInRoom",
	},
	{
		"log: what is torn is not room", "../internal/wal/room.go",
		"return size - int64(len(part)-kept), nil", "return from + 0*int64(kept), nil",
		"../internal/wal", "TestTornGroupInRoom",
	},
	{
		"log: a failed write has cut the room off", "../internal/wal/log.go",
		"l.torn, l.room = false, 0", "l.torn = false", "../internal/wal", "TestRoomAfterFailedWrite",
	},
	{
		"log: a closed log has no room", "../internal/wal/log.go",
		"err == nil && size > end {", "err == nil && size > end && l.room > 0 {", "../internal/wal",
		"TestRoomThatFitsInPart",
	},
	{
		"log: a reader sees each append in the room", "../internal/wal/file.go",
		"size, err = trimRoom(f, name, 0, size)", "_, err = trimRoom(f, name, 0, size)",
		"../internal/wal", "TestReadersBesideRoom",
	},
}
