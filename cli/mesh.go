package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"waggle/client"
)

// MeshCmd groups the commands about the gossip between brokers.
type MeshCmd struct {
	Members   MeshMembersCmd   `cmd:"" help:"List the brokers as one of them sees them."`
	Keys      MeshKeysCmd      `cmd:"" help:"Show the mesh keys by their fingerprints, and who has confirmed them."`
	Ping      MeshPingCmd      `cmd:"" help:"Measure the way over the mesh to the other brokers and back."`
	RotateKey MeshRotateKeyCmd `cmd:"" help:"Replace the mesh key everywhere, without a restart."`
}

// MeshOutput is Output with a short form.
type MeshOutput struct {
	Output
	JSON bool `name:"json" env:"-" help:"Short for --output json."`
}

// AfterApply implements kong's hook.
func (o *MeshOutput) AfterApply() error {
	if o.JSON {
		o.Output.Output = "json"
	}
	return nil
}

// MeshMembersCmd lists members.
type MeshMembersCmd struct {
	Connection
	MeshOutput
}

// Run implements the command.
func (c *MeshMembersCmd) Run(ctx context.Context, s *Session) error {
	cl, err := c.connect()
	if err != nil {
		return err
	}
	defer cl.Close()
	self, members, err := cl.MeshMembers(ctx)
	if err != nil {
		return fmt.Errorf("list mesh members: %w", err)
	}
	shown := struct {
		Self    string              `json:"self"`
		Members []client.MeshMember `json:"members"`
	}{self, members}
	return c.print(s.Stdout, shown, func(w io.Writer) {
		fmt.Fprintf(w, "as %s sees them\n", orDash(self))
		rows := [][]string{{"NAME", "ADDRESS", "STATE", "VERSION", "FRAMES", "KEYS", "CONFIRMED", "HINT"}}
		for _, m := range members {
			rows = append(rows, []string{
				m.Name, orDash(m.Address), m.State, orDash(m.Version), fmt.Sprintf("%d-%d", m.Frames.Min, m.Frames.Max),
				keyText(m.Keys), confirmation(m.Keys), orDash(m.Hint),
			})
		}
		table(w, rows)
	})
}

func keyText(h client.MeshHolder) string {
	if h.Fingerprint == "" {
		return h.Source
	}
	return h.Source + ":" + h.Fingerprint
}

func confirmation(h client.MeshHolder) string {
	switch {
	case h.Confirmed:
		return fmt.Sprintf("ring %d", h.Ring)
	case h.Ring > 0:
		return fmt.Sprintf("no, ring %d", h.Ring)
	}
	return "no"
}

// MeshKeysCmd shows keys.
type MeshKeysCmd struct {
	Connection
	MeshOutput
}

// Run implements the command.
func (c *MeshKeysCmd) Run(ctx context.Context, s *Session) error {
	cl, err := c.connect()
	if err != nil {
		return err
	}
	defer cl.Close()
	keys, err := cl.MeshKeys(ctx)
	if err != nil {
		return fmt.Errorf("show mesh keys: %w", err)
	}
	return c.print(s.Stdout, keys, func(w io.Writer) {
		fmt.Fprintf(w, "ring %d in the database\n", keys.Ring)
		rows := [][]string{{"FINGERPRINT", "USE"}}
		for _, key := range keys.Keys {
			use := "decrypts"
			if key.Primary {
				use = "encrypts and decrypts"
			}
			rows = append(rows, []string{key.Fingerprint, use})
		}
		table(w, rows)
		fmt.Fprintln(w)
		rows = [][]string{{"BROKER", "KEYS", "CONFIRMED"}}
		for _, b := range keys.Brokers {
			rows = append(rows, []string{b.Name, keyText(b.MeshHolder), confirmation(b.MeshHolder)})
		}
		table(w, rows)
		fmt.Fprintln(w)
		switch r := keys.Rotation; {
		case r != nil:
			fmt.Fprintf(w, "rotation: %s, asked for by %s at %s\n", stepText(r.Step), r.RequestedBy, moment(r.RequestedAt))
			for _, b := range r.WaitingFor {
				fmt.Fprintf(w, "waiting for %s: %s\n", b.Name, b.Reason)
			}
		case keys.LastRotated != nil:
			fmt.Fprintf(w, "no rotation under way, the last one ended at %s\n", moment(*keys.LastRotated))
		default:
			fmt.Fprintln(w, "no rotation under way, and there never was one")
		}
	})
}

// MeshPingCmd measures round trips.
type MeshPingCmd struct {
	Connection
	MeshOutput
	Name string `arg:"" optional:"" help:"Only to the broker of this name."`
}

// Run implements the command; a peer that does not answer is a failure.
func (c *MeshPingCmd) Run(ctx context.Context, s *Session) error {
	cl, err := c.connect()
	if err != nil {
		return err
	}
	defer cl.Close()
	from, peers, err := cl.PingMesh(ctx, c.Name)
	if err != nil {
		return fmt.Errorf("ping over the mesh: %w", err)
	}
	shown := struct {
		From  string            `json:"from"`
		Peers []client.MeshPing `json:"peers"`
	}{from, peers}
	silent := false
	rows := [][]string{{"FROM", "TO", "ADDRESS", "STATE", "MS", "ERROR"}}
	for _, p := range peers {
		took := "-"
		if p.Milliseconds != nil {
			took = strconv.FormatFloat(*p.Milliseconds, 'f', 2, 64)
		}
		silent = silent || p.Milliseconds == nil
		rows = append(rows, []string{orDash(from), p.Name, p.Address, p.State, took, orDash(p.Error)})
	}
	if err := c.print(s.Stdout, shown, func(w io.Writer) { table(w, rows) }); err != nil {
		return err
	}
	if silent {
		return Fail(ExitFailed, nil)
	}
	return nil
}
