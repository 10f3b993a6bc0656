// Package cli is the command line: it parses, calls, prints and chooses the exit code. What the commands do lives in
// the packages they call.
//
// One struct, CLI, is the source of flags, environment variables and help. Each flag is also the variable
// WAGGLE_<FLAG>; `env` tags add further names. A command is a struct with a Run method that may ask for a
// context.Context, which ends with the first signal, and for the *Session.
//
// Answers go to standard output, everything else to standard error. A failure is one line. The exit codes are the Exit
// constants.
package cli
