package leader

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Session is one dedicated connection to the database. Calls come one at a time. After any error the session is only
// closed: implementations need not recover.
type Session interface {
	// TryLock asks once for the leader lock, without waiting. led says that somebody who holds the lock has stamped the
	// leader row within the last lease; a lock that is neither won nor led belongs to a stranger.
	TryLock(ctx context.Context) (won, led bool, err error)
	// Bump raises the epoch under the lock, and returns the new term.
	Bump(ctx context.Context) (epoch int64, timeline string, since time.Time, err error)
	// Heartbeat proves that this session still holds the lock and that the epoch is still the one of its Bump, and
	// stamps that the leader was seen. An error that has a method LeadershipLost() bool returning true is an answer, not
	// a failure to get one.
	Heartbeat(ctx context.Context) error
	// Holder describes who has the lock, for the log.
	Holder(ctx context.Context) (string, error)
	// Unlock vacates the leader row and frees the lock.
	Unlock(ctx context.Context) error
	// Close ends the session, and with it the lock. It returns soon even if the server does not answer.
	Close()
}

// Term is one reign. The triple (Timeline, Epoch, start id of the broker) is what the fence compares.
type Term struct {
	Epoch int64
	// Timeline is the one of the server's write-ahead log: it changes when a standby is promoted.
	Timeline string
	// Since is the server's clock at the moment of winning.
	Since time.Time
}

// Reason says why a reign ended, or that it began. It is a label value of the transitions counter.
type Reason string

// The reasons. Won is the only one that begins a reign.
const (
	Won             Reason = "won"
	Resigned        Reason = "resigned"
	Stopped         Reason = "stopped"
	Expired         Reason = "expired"
	HeartbeatFailed Reason = "heartbeat_failed"
	Lost            Reason = "lost"
	JobsEnded       Reason = "jobs_ended"
)

var reasons = []Reason{Won, Resigned, Stopped, Expired, HeartbeatFailed, Lost, JobsEnded}

// LostError is the cause of a cancelled leader context.
type LostError struct {
	Epoch  int64
	Reason Reason
	// Err is what made the elector step down; nil when it was asked to.
	Err error
}

// Error names the epoch and the reason.
func (e *LostError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("leadership of epoch %d ended (%s): %v", e.Epoch, e.Reason, e.Err)
	}
	return fmt.Sprintf("leadership of epoch %d ended (%s)", e.Epoch, e.Reason)
}

// Unwrap gives what made the elector step down.
func (e *LostError) Unwrap() error { return e.Err }

// isUnfit tells a session that can never lead, whatever is tried, from one that failed. Such errors have a method
// UnfitToLead.
func isUnfit(err error) bool {
	var unfit interface{ UnfitToLead() bool }
	return errors.As(err, &unfit) && unfit.UnfitToLead()
}

// isLost tells an answer that says we do not lead from a question without an answer.
func isLost(err error) bool {
	var lost interface{ LeadershipLost() bool }
	return errors.As(err, &lost) && lost.LeadershipLost()
}
