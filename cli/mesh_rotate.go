package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"waggle/client"
)

// rotationPoll is how often the progress of a rotation is asked for.
const rotationPoll = 200 * time.Millisecond

// MeshRotateKeyCmd replaces the mesh key.
type MeshRotateKeyCmd struct {
	Connection
	MeshOutput
	NoWait  bool          `env:"-" help:"Do not wait for the end; the rotation goes on by itself."`
	Timeout time.Duration `env:"-" default:"5m" help:"How long to wait for the end."`
}

// Run implements the command. A rotation that is under way already is joined.
func (c *MeshRotateKeyCmd) Run(ctx context.Context, s *Session) error {
	cl, err := c.connect()
	if err != nil {
		return err
	}
	defer cl.Close()
	started, err := cl.RotateMeshKey(ctx)
	if isStatus(err, http.StatusConflict) {
		return Fail(ExitRefused, err)
	}
	if err != nil {
		return fmt.Errorf("rotate mesh key: %w", err)
	}
	progress := s.Stdout
	if c.Output.Output == "json" {
		progress = io.Discard
	}
	if started {
		fmt.Fprintln(progress, "rotation begun")
	} else {
		fmt.Fprintln(progress, "a rotation is under way already")
	}
	if c.NoWait {
		keys, err := cl.MeshKeys(ctx)
		if err != nil {
			return fmt.Errorf("show mesh keys: %w", err)
		}
		return c.print(s.Stdout, keys, func(w io.Writer) { fmt.Fprintln(w, "`waggle mesh keys` shows how far it is") })
	}
	keys, err := c.follow(ctx, cl, &rotationReport{out: progress, steps: rotationSteps})
	if err != nil {
		return err
	}
	return c.print(s.Stdout, keys, func(w io.Writer) {
		fmt.Fprintf(w, "done: every broker uses ring %d", keys.Ring)
		if len(keys.Keys) > 0 {
			fmt.Fprintf(w, ", key %s", keys.Keys[0].Fingerprint)
		}
		fmt.Fprintln(w)
	})
}

// rotationSteps are the steps in their order.
var rotationSteps = []string{"install", "use", "remove"}

// rotationReport writes what is new about a rotation.
type rotationReport struct {
	out io.Writer
	// steps are those of which nothing was written yet.
	steps   []string
	waiting string
}

// tell writes the steps up to the present one, those that were over before anybody looked included, and who is waited for.
func (r *rotationReport) tell(now *client.MeshRotation) {
	over := len(r.steps)
	if now != nil {
		over = slices.Index(r.steps, now.Step) + 1
	}
	for _, step := range r.steps[:over] {
		fmt.Fprintln(r.out, stepText(step))
	}
	r.steps = r.steps[over:]
	if waiting := waitingText(now); waiting != r.waiting {
		fmt.Fprint(r.out, waiting)
		r.waiting = waiting
	}
}

func waitingText(r *client.MeshRotation) string {
	var text strings.Builder
	if r != nil {
		for _, b := range r.WaitingFor {
			fmt.Fprintf(&text, "  waiting for %s: %s\n", b.Name, b.Reason)
		}
	}
	return text.String()
}

// follow tells of the rotation until there is none any more.
func (c *MeshRotateKeyCmd) follow(ctx context.Context, cl *client.Client, report *rotationReport) (client.MeshKeys, error) {
	began := time.Now()
	for {
		keys, err := cl.MeshKeys(ctx)
		if err != nil {
			return keys, fmt.Errorf("follow rotation, which goes on by itself: %w", err)
		}
		report.tell(keys.Rotation)
		if keys.Rotation == nil {
			return keys, nil
		}
		if time.Since(began) > c.Timeout {
			state := stepText(keys.Rotation.Step)
			for line := range strings.Lines(waitingText(keys.Rotation)) {
				state += "; " + strings.TrimSpace(line)
			}
			return keys, Fail(ExitRefused, fmt.Errorf("the rotation has not ended within %v and goes on by itself: %s", c.Timeout, state))
		}
		select {
		case <-ctx.Done():
			return keys, context.Cause(ctx)
		case <-time.After(rotationPoll):
		}
	}
}

// stepText says what a step of a rotation does.
func stepText(step string) string {
	switch step {
	case "requested":
		return "waits for the leader to begin"
	case "install":
		return "step 1 of 3, install: every broker takes the new key beside the old one"
	case "use":
		return "step 2 of 3, use: every broker encrypts with the new key"
	case "remove":
		return "step 3 of 3, remove: every broker forgets the old key"
	}
	return step
}
