package cli

import (
	"context"
	"fmt"
	"os"

	"waggle/node"
)

// DevCmd runs a cluster for one person: a private PostgreSQL and some brokers.
type DevCmd struct {
	Brokers int    `env:"-" default:"3" help:"How many brokers."`
	Data    string `env:"-" default:".waggle" type:"path" help:"Folder for data, logs and cluster.json."`
	Port    int    `env:"-" default:"6632" help:"Port of the first broker; the others follow. 0 lets the kernel choose."`
	Respawn bool   `env:"-" help:"Start a broker again that has died."`
}

// Run implements the command.
func (c *DevCmd) Run(ctx context.Context, s *Session) error {
	switch {
	case c.Brokers < 1 || c.Brokers > 50:
		return usageError("--brokers %d: must be between 1 and 50", c.Brokers)
	case c.Port < 0 || c.Port > 65535-c.Brokers:
		return usageError("--port %d: must leave room for %d brokers", c.Port, c.Brokers)
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find own program: %w", err)
	}
	return serveError(node.RunDev(ctx, node.DevConfig{
		Brokers: c.Brokers, Dir: c.Data, Port: c.Port, Respawn: c.Respawn, Program: program, Environ: s.Environ,
		Say: s.Stdout, Logger: newLogger(s.Stderr, "warn"),
	}))
}
