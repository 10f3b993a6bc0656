package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"waggle/api/jsonwire"
)

// LeaderControl is how operators steer the leader and its jobs, through whichever broker they ask.
type LeaderControl interface {
	Jobs(ctx context.Context) ([]Job, error)
	// SwitchJob switches a job on or off for the whole cluster. The error is ErrNoJob where there is none of the name.
	SwitchJob(ctx context.Context, name string, on bool) error
	// RunJob makes a job due now and tells the leader. Errors to tell apart: ErrNoJob, ErrJobOff.
	RunJob(ctx context.Context, name string, caller Caller) error
	// StepDown makes the leader resign and returns its name. Errors to tell apart: ErrNoLeader, ErrLeaderMoved.
	StepDown(ctx context.Context, caller Caller) (name string, err error)
}

// Caller is on whose behalf a broker turns to the leader.
type Caller struct {
	Authorization string
	// Forwarded says that another broker has sent the call here, taking this one for the leader.
	Forwarded bool
}

// ForwardedHeader marks calls that one broker passes to another.
const ForwardedHeader = "X-Waggle-Forwarded"

// Job is one of the leader's jobs.
type Job struct {
	Name        string
	Enabled     bool
	NextDue     time.Time
	LastStart   time.Time // zero for never, like the next two
	LastSuccess time.Time
	LastFailure time.Time
	LastError   string
	LastRows    int64
	RowsDone    int64
	MinBuild    int
}

// What steering may meet.
var (
	ErrNoJob       = errors.New("no such job")
	ErrJobOff      = errors.New("the job is switched off")
	ErrNoLeader    = errors.New("no broker leads at the moment")
	ErrLeaderMoved = errors.New("the broker that was asked does not lead any more; try again")
)

// showLeader is GET /api/v1/cluster/leader. That there is none is an answer too, not an error.
func (s *Server) showLeader(x *exchange) {
	leader := s.parts.Cluster.Leader()
	jobs, err := s.parts.Cluster.Jobs(x.r.Context())
	if err != nil {
		x.failBroker("jobs not read", err)
		return
	}
	x.answer(http.StatusOK, func(dst []byte) []byte {
		if leader == nil {
			dst = append(dst, `{"name":null,"startId":null,"epoch":null,"since":null,"isSelf":false`...)
		} else {
			dst = append(dst, `{"name":`...)
			dst = jsonwire.AppendString(dst, leader.Name)
			dst = append(dst, `,"startId":`...)
			dst = jsonwire.AppendString(dst, leader.StartID)
			dst = appendCount(dst, `,"epoch":`, leader.Epoch)
			dst = append(dst, `,"since":`...)
			dst = appendMoment(dst, leader.Since)
			dst = appendFlag(dst, `,"isSelf":`, leader.IsSelf)
		}
		dst = append(dst, `,"jobs":[`...)
		for i := range jobs {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendJob(dst, &jobs[i])
		}
		return append(dst, `]}`...)
	})
}

func appendJob(dst []byte, job *Job) []byte {
	dst = append(dst, `{"name":`...)
	dst = jsonwire.AppendString(dst, job.Name)
	dst = appendFlag(dst, `,"enabled":`, job.Enabled)
	for _, moment := range [...]struct {
		before string
		t      time.Time
	}{
		{`,"nextDue":`, job.NextDue},
		{`,"lastStart":`, job.LastStart},
		{`,"lastSuccess":`, job.LastSuccess},
		{`,"lastFailure":`, job.LastFailure},
	} {
		dst = append(dst, moment.before...)
		dst = appendMoment(dst, moment.t)
	}
	dst = append(dst, `,"lastError":`...)
	dst = appendOptional(dst, job.LastError)
	dst = appendCount(dst, `,"lastRows":`, job.LastRows)
	dst = appendCount(dst, `,"rowsDone":`, job.RowsDone)
	dst = appendCount(dst, `,"minBuild":`, int64(job.MinBuild))
	return append(dst, '}')
}

func (x *exchange) caller() Caller {
	return Caller{Authorization: x.r.Header.Get("Authorization"), Forwarded: x.r.Header.Get(ForwardedHeader) != ""}
}

// stepDown is POST /api/v1/cluster/leader/step-down.
func (s *Server) stepDown(x *exchange) {
	name, err := s.parts.Cluster.StepDown(x.r.Context(), x.caller())
	if x.failSteering(err) {
		return
	}
	x.answer(http.StatusOK, func(dst []byte) []byte {
		return append(jsonwire.AppendString(append(dst, `{"steppedDown":`...), name), '}')
	})
}

// runJob is POST /api/v1/cluster/leader/jobs/:job/run.
func (s *Server) runJob(x *exchange) {
	if x.failSteering(s.parts.Cluster.RunJob(x.r.Context(), x.names[0], x.caller())) {
		return
	}
	x.answer(http.StatusOK, func(dst []byte) []byte {
		return append(jsonwire.AppendString(append(dst, `{"job":`...), x.names[0]), `,"due":"now"}`...)
	})
}

// switchJob is POST /api/v1/cluster/leader/jobs/:job.
func (s *Server) switchJob(x *exchange) {
	on, ok := x.readEnabled()
	if !ok || x.failSteering(s.parts.Cluster.SwitchJob(x.r.Context(), x.names[0], on)) {
		return
	}
	x.answer(http.StatusOK, func(dst []byte) []byte {
		dst = jsonwire.AppendString(append(dst, `{"job":`...), x.names[0])
		return append(appendFlag(dst, `,"enabled":`, on), '}')
	})
}

// failSteering answers an error, if there is one.
func (x *exchange) failSteering(err error) bool {
	switch {
	case err == nil:
		return false
	case errors.Is(err, ErrNoJob):
		x.fail(http.StatusNotFound, "no leader has ever had a job of this name; GET /api/v1/cluster/leader lists them", "")
	case errors.Is(err, ErrJobOff), errors.Is(err, ErrNoLeader), errors.Is(err, ErrLeaderMoved):
		x.fail(http.StatusConflict, err.Error(), "")
	default:
		x.failBroker("the leader cannot be reached", err)
	}
	return true
}
