package cli

import (
	"fmt"
	"io"
	"strings"

	"waggle/codes"
)

// ExplainCmd says what a code of the log or of an error means.
type ExplainCmd struct {
	Output
	Code string `arg:"" optional:"" help:"Code, such as WG0022 or 22; without one all are listed."`
}

// Run implements the command.
func (c *ExplainCmd) Run(s *Session) error {
	if c.Code == "" {
		all := codes.All()
		return c.print(s.Stdout, all, func(w io.Writer) {
			rows := [][]string{{"CODE", "TEXT"}}
			for _, code := range all {
				rows = append(rows, []string{code.ID, code.Text})
			}
			table(w, rows)
		})
	}
	code, found := codes.Find(c.Code)
	if !found {
		var near []string
		for _, n := range codes.Near(c.Code) {
			near = append(near, n.ID)
		}
		return Fail(ExitUsage, fmt.Errorf("there is no code %q; near it: %s; `waggle explain` lists all", c.Code, strings.Join(near, ", ")))
	}
	return c.print(s.Stdout, code, func(w io.Writer) {
		fmt.Fprintf(w, "%s  %s\n\nCause:   %s\nRemedy:  %s\n", code.ID, code.Text, code.Meaning, code.Remedy)
		switch {
		case code.Look == "":
		case strings.HasPrefix(code.Look, "waggle "):
			fmt.Fprintf(w, "\nTo look deeper:\n  %s\n", code.Look)
		default:
			fmt.Fprintf(w, "\nTo look deeper, in psql:\n  %s;\n", code.Look)
		}
	})
}
