package cli

import (
	"context"
	"io"

	"waggle/client"
)

// HealthCmd asks each broker on its own.
type HealthCmd struct {
	Connection
	Output
}

// Run implements the command; it fails unless every broker is healthy.
func (c *HealthCmd) Run(ctx context.Context, s *Session) error {
	cl, err := c.connect()
	if err != nil {
		return err
	}
	defer cl.Close()
	type line struct {
		client.Health
		Error string `json:"error,omitempty"`
	}
	var lines []line
	rows := [][]string{{"URL", "STATUS", "DATABASE", "VERSION", "ERROR"}}
	healthy := true
	for _, h := range cl.Health(ctx) {
		l := line{Health: h}
		if h.Err != nil {
			healthy = false
			l.Error = h.Err.Error()
		}
		if l.Status == "" {
			l.Status = "unreachable"
		}
		lines = append(lines, l)
		rows = append(rows, []string{l.URL, l.Status, orDash(l.Database), orDash(l.Version), orDash(l.Error)})
	}
	if err := c.print(s.Stdout, lines, func(w io.Writer) { table(w, rows) }); err != nil {
		return err
	}
	if !healthy {
		return Fail(ExitFailed, nil)
	}
	return nil
}
