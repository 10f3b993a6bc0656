package cli

import (
	"regexp"
	"strings"

	"github.com/alecthomas/kong"
)

// parseAll parses the arguments. After a flag whose value is bad it goes on as if that had not been given, so that all
// bad values are known at once. The command is nil when there is any error.
func parseAll(parser *kong.Kong, environment *environment, args []string) (*kong.Context, []error) {
	var errs []error
	for {
		environment.refused = nil
		command, err := parser.Parse(args)
		if err == nil {
			if errs = append(errs, environment.refused...); len(errs) > 0 {
				return nil, errs
			}
			return command, nil
		}
		name := ""
		if found := badFlag.FindStringSubmatch(err.Error()); found != nil {
			name = found[1]
		}
		errs = append(errs, environment.naming(name, err))
		rest := withoutFlag(args, name)
		if len(rest) == len(args) {
			return nil, append(errs, environment.refused...)
		}
		args = rest
	}
}

// badFlag finds the flag that kong complains of: "--pool: expected …", "--mesh must be one of …".
var badFlag = regexp.MustCompile(`^(--[a-z][a-z-]*)(: | must be one of )`)

// withoutFlag leaves out a flag and its value, wherever it is given.
func withoutFlag(args []string, name string) []string {
	if name == "" {
		return args
	}
	var rest []string
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "--":
			return append(rest, args[i:]...)
		case args[i] == name:
			i++
		case !strings.HasPrefix(args[i], name+"="):
			rest = append(rest, args[i])
		}
	}
	return rest
}

// namedError is an error about a flag that also names the flag's variable.
type namedError struct {
	text string
	err  error
}

func (e *namedError) Error() string { return e.text }

// Unwrap is kong's error.
func (e *namedError) Unwrap() error { return e.err }

// naming adds the flag's first variable to an error that begins with the flag.
func (e *environment) naming(name string, err error) error {
	for flag, variables := range e.names {
		if "--"+flag.Name == name && len(variables) > 0 {
			return &namedError{name + " (" + variables[0] + ")" + strings.TrimPrefix(err.Error(), name), err}
		}
	}
	return err
}
