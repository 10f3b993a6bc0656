package leader_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"waggle/leader"
	"waggle/pg"
)

// candidateVariable makes this test binary a candidate: a process that campaigns as a broker does, and whose only job
// writes rows into the history. It is the worst leader there can be: it goes on writing under the last term that it won,
// whatever its elector says. Nothing but the fence stands between it and the history.
const candidateVariable = "WAGGLE_LEADER_CANDIDATE"

// candidateSettings is the value of that variable.
type candidateSettings struct {
	Name      string
	LockURL   string
	JobURL    string
	ClusterID uuid.UUID
	Lease     time.Duration
	// Unfenced leaves the fence out of the job's transactions. Only this test binary can do that.
	Unfenced bool
}

// report is one line on a candidate's standard output.
type report struct {
	Event  string
	Epoch  int64  `json:",omitempty"`
	Reason string `json:",omitempty"`
	// Written and Refused count the job's transactions so far that were committed, and that the fence turned away.
	Written, Refused int64 `json:",omitempty"`
}

// Events of reports, and the commands that some of them answer, a line on standard input each.
const (
	eventLeads = "leads"
	eventLost  = "lost"
	// commandHold opens a job transaction, writes in it and leaves it open until commandCommit.
	commandHold   = "hold"
	eventInside   = "inside"
	commandCommit = "commit"
	eventEnded    = "ended"
	commandCount  = "count"
	eventCounted  = "counted"
)

type candidate struct {
	settings candidateSettings
	startID  uuid.UUID
	db       *pg.DB
	term     atomic.Pointer[leader.Term]
	commit   chan struct{}

	written, refused atomic.Int64

	mu sync.Mutex // guards standard output
}

func runCandidate(text string) int {
	c := &candidate{startID: uuid.New(), commit: make(chan struct{}, 1)}
	if err := c.run(text); err != nil {
		fmt.Fprintln(os.Stderr, "candidate:", err)
		return 1
	}
	return 0
}

func (c *candidate) run(text string) error {
	if err := json.Unmarshal([]byte(text), &c.settings); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	knows := pg.Knows{System: 1, Record: 1}
	var err error
	if c.db, err = pg.Open(ctx, pg.Config{URL: c.settings.JobURL, ApplicationName: "candidate " + c.settings.Name, Knows: knows}); err != nil {
		return err
	}
	logger, err := zap.NewDevelopment()
	if err != nil {
		return err
	}
	elector, err := leader.New(leader.Config{
		Dial: func(ctx context.Context) (leader.Session, error) {
			session, err := pg.DialLeader(ctx, pg.LeaderConfig{
				URL: c.settings.LockURL, Name: c.settings.Name, StartID: c.startID, ClusterID: c.settings.ClusterID,
				Lease: c.settings.Lease, Knows: knows,
			})
			if err != nil {
				return nil, err
			}
			return session, nil
		},
		Lead: c.lead, Lease: c.settings.Lease, Logger: logger.Named(c.settings.Name),
	})
	if err != nil {
		return err
	}
	go c.write()
	go c.obey()
	return elector.Run(ctx)
}

func (c *candidate) lead(ctx context.Context, term leader.Term) error {
	c.term.Store(&term)
	c.say(report{Event: eventLeads, Epoch: term.Epoch})
	<-ctx.Done()
	var lost *leader.LostError
	if !errors.As(context.Cause(ctx), &lost) {
		return fmt.Errorf("cancelled without a reason: %w", context.Cause(ctx))
	}
	c.say(report{Event: eventLost, Epoch: term.Epoch, Reason: string(lost.Reason)})
	return nil
}

// write never stops, and never looks whether it leads.
func (c *candidate) write() {
	for range time.Tick(20 * time.Millisecond) {
		term := c.term.Load()
		if term == nil {
			continue
		}
		var fenced *pg.FencedError
		switch err := c.transaction(term, nil); {
		case errors.As(err, &fenced):
			c.refused.Add(1)
		case err == nil:
			c.written.Add(1)
		}
	}
}

// transaction writes one row under a term, and calls before, if there is one, before it commits.
func (c *candidate) transaction(term *leader.Term, before func()) error {
	work := func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "insert into history.written (timeline, epoch, start_id) values ($1, $2, $3)",
			term.Timeline, term.Epoch, c.startID)
		if err == nil && before != nil {
			before()
		}
		return err
	}
	if c.settings.Unfenced {
		return pgx.BeginFunc(context.Background(), c.db.Pool(), func(tx pgx.Tx) error { return work(context.Background(), tx) })
	}
	fenced := c.db.Fenced(pg.Reign{Timeline: term.Timeline, Epoch: term.Epoch, StartID: c.startID})
	return fenced.Do(context.Background(), work)
}

// obey reads commands until standard input ends, and with it this process: its test is gone.
func (c *candidate) obey() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		switch lines.Text() {
		case commandHold:
			go c.hold()
		case commandCommit:
			c.commit <- struct{}{}
		case commandCount:
			c.say(report{Event: eventCounted, Written: c.written.Load(), Refused: c.refused.Load()})
		}
	}
	os.Exit(1)
}

func (c *candidate) hold() {
	err := c.transaction(c.term.Load(), func() {
		c.say(report{Event: eventInside})
		<-c.commit
	})
	ended := report{Event: eventEnded}
	if err != nil {
		ended.Reason = err.Error()
	}
	c.say(ended)
}

func (c *candidate) say(r report) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		os.Exit(1)
	}
}
