// Package copycommand is the command copystore, which moves a Store between a directory and an
// engine. Each engine has its own: session/pgstore/copystore and session/natsstore/copystore.
//
//	command line --> Command.Run --> the source, the target --> storecopy.Copy or Verify
//	                      |
//	                      +--> what is done, what is wrong, what to do about it; an exit code
//
// [Command] is all that there is. Begin in command.go.
package copycommand
