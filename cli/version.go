package cli

import (
	"fmt"
	"io"
	"runtime"
)

// VersionCmd prints the version.
type VersionCmd struct {
	Output
}

// Run implements the command.
func (c *VersionCmd) Run(s *Session) error {
	answer := struct {
		Version string `json:"version"`
		Go      string `json:"go"`
	}{s.Version, runtime.Version()}
	return c.print(s.Stdout, answer, func(w io.Writer) { fmt.Fprintln(w, "waggle "+s.Version) })
}
