package cli

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

const (
	variablePrefix = "WAGGLE_"
	secretTag      = "secret"
	fileSuffix     = "_FILE"
)

// environment gives flags their values from variables: WAGGLE_<FLAG> first, then the names of the flag's env tag. It
// reads the session's variables, not the process's, so that tests can run side by side. A flag with the tag env:"-" has
// no variable: it is an argument rather than a setting, or its name means something else elsewhere. A flag with the tag
// secret may also be given as a file, named by any of its variables with _FILE behind; its value is never shown.
type environment struct {
	values map[string]string
	// names holds the variables of each flag in the order they are tried.
	names map[*kong.Flag][]string
	// refused collects every bad value, so that all are reported at once.
	refused []error
}

func newEnvironment(environ []string) *environment {
	e := &environment{values: make(map[string]string, len(environ)), names: map[*kong.Flag][]string{}}
	for _, entry := range environ {
		if name, value, ok := strings.Cut(entry, "="); ok {
			e.values[name] = value
		}
	}
	return e
}

// register takes the flags' variables away from kong, which would read the process's own, and names them in the help.
func (e *environment) register(k *kong.Kong) error {
	return kong.Visit(k.Model, func(node kong.Visitable, next kong.Next) error {
		if flag, ok := node.(*kong.Flag); ok && slices.Contains(flag.Tag.Envs, "-") {
			flag.Envs, flag.Tag.Envs = nil, nil
		} else if ok && flag.Name != "help" {
			names := append([]string{variableName(flag.Name)}, flag.Tag.Envs...)
			if flag.Tag.Has(secretTag) {
				for _, name := range slices.Clone(names) {
					names = append(names, name+fileSuffix)
				}
			}
			e.names[flag] = names
			flag.Envs, flag.Tag.Envs = nil, nil
			flag.Help = strings.TrimSpace(flag.Help + " ($" + strings.Join(names, ", $") + ")")
		}
		return next(nil)
	})
}

func variableName(flag string) string {
	return variablePrefix + strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(flag))
}

// Validate implements kong.Resolver.
func (e *environment) Validate(*kong.Application) error { return nil }

// Resolve implements kong.Resolver: the value for a flag that the command line does not set. Empty counts as not set.
func (e *environment) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	for _, name := range e.names[flag] {
		value := e.values[name]
		if value == "" || isServiceLink(value) {
			continue
		}
		if flag.Tag.Has(secretTag) && strings.HasSuffix(name, fileSuffix) {
			content, err := os.ReadFile(value)
			if err != nil {
				e.refused = append(e.refused, fmt.Errorf("--%s: read file that %s names: %w", flag.Name, name, err))
				return nil, nil
			}
			value = strings.TrimSpace(string(content))
		}
		scratch := reflect.New(flag.Target.Type()).Elem()
		if err := flag.Parse(kong.Scan().PushTyped(value, kong.FlagValueToken), scratch); err != nil {
			e.refused = append(e.refused, refusedValue(flag, name, value, err))
			return nil, nil
		}
		return value, nil
	}
	return nil, nil
}

func refusedValue(flag *kong.Flag, name, value string, err error) error {
	if flag.Tag.Has(secretTag) {
		return fmt.Errorf("--%s: %s has a bad value", flag.Name, name)
	}
	return fmt.Errorf("%s=%q: %w", name, value, err)
}

// isServiceLink recognises what Kubernetes injects for a service called waggle, such as WAGGLE_PORT=tcp://10.0.0.1:80.
func isServiceLink(value string) bool {
	return strings.HasPrefix(value, "tcp://") || strings.HasPrefix(value, "udp://")
}

// serviceLinkNames are the variables that Kubernetes makes of a service called waggle without a port in their name.
var serviceLinkNames = []string{"WAGGLE_SERVICE_HOST", "WAGGLE_SERVICE_PORT", "WAGGLE_PORT"}

// UnknownVariable is a variable of ours that no flag knows, and the known one it resembles most.
type UnknownVariable struct {
	Name    string
	Nearest string
}

// UnknownVariables lists the WAGGLE_ variables of environ that are no flag of any command. An older program must start
// in a newer deployment file, so that this is for a warning, or for a check that is asked for.
func UnknownVariables(environ []string) ([]UnknownVariable, error) {
	e := newEnvironment(environ)
	if _, err := kong.New(&CLI{}, kong.PostBuild(e.register)); err != nil {
		return nil, fmt.Errorf("build command line: %w", err)
	}
	var known []string
	for _, names := range e.names {
		known = append(known, names...)
	}
	slices.Sort(known)
	var unknown []UnknownVariable
	for name, value := range e.values {
		if !strings.HasPrefix(name, variablePrefix) || slices.Contains(known, name) {
			continue
		}
		if isServiceLink(value) || slices.Contains(serviceLinkNames, name) || strings.HasPrefix(name, "WAGGLE_PORT_") ||
			strings.HasPrefix(name, "WAGGLE_SERVICE_PORT_") {
			continue
		}
		unknown = append(unknown, UnknownVariable{Name: name, Nearest: nearest(name, known)})
	}
	slices.SortFunc(unknown, func(a, b UnknownVariable) int { return strings.Compare(a.Name, b.Name) })
	return unknown, nil
}

func nearest(name string, known []string) string {
	best, distance := "", 0
	for _, candidate := range known {
		if !strings.HasPrefix(candidate, variablePrefix) {
			continue
		}
		if d := editDistance(name, candidate); best == "" || d < distance {
			best, distance = candidate, d
		}
	}
	return best
}

// editDistance counts the insertions, deletions and replacements between two names.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			above := row[j+1]
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(row[j]+1, above+1, diagonal+cost)
			diagonal = above
		}
	}
	return row[len(b)]
}
