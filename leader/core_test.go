package leader

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var testRules = rules{
	lease: 10 * time.Second, margin: time.Second, campaign: time.Second, hintJitter: 200 * time.Millisecond,
	sitOut: 5 * time.Second, unfit: time.Minute, jobWait: 500 * time.Millisecond,
}

// moment is a point of the tests' time line.
func moment(d time.Duration) time.Time { return time.Unix(1_000_000, 0).Add(d) }

const second = time.Second

func leadingSince(asked time.Duration) state {
	return state{
		phase: leading, jobs: true, term: Term{Epoch: 3}, trustEnd: testRules.trust(moment(asked)),
		beatDue: moment(asked).Add(testRules.lease / 3),
	}
}

func TestStep(t *testing.T) {
	t.Parallel()
	at := moment(20 * second)
	for _, test := range []struct {
		name    string
		state   state
		event   event
		phase   phase
		actions []action
		check   func(*testing.T, state)
	}{
		{
			name:  "following waits for its time",
			state: state{phase: following, nextTry: at.Add(1)}, event: event{kind: ticked}, phase: following,
		}, {
			name:  "following tries when its time has come",
			state: state{phase: following, nextTry: at}, event: event{kind: ticked}, phase: asking, actions: []action{actTry},
		}, {
			name:  "a hint brings the next try forward",
			state: state{phase: following, nextTry: at.Add(second)}, event: event{kind: hinted, roll: .5}, phase: following,
			check: func(t *testing.T, s state) { require.Equal(t, at.Add(100*time.Millisecond), s.nextTry) },
		}, {
			name:  "a hint does not delay a try",
			state: state{phase: following, nextTry: at.Add(time.Millisecond)}, event: event{kind: hinted, roll: .5}, phase: following,
			check: func(t *testing.T, s state) { require.Equal(t, at.Add(time.Millisecond), s.nextTry) },
		}, {
			name:  "a hint does not end sitting out",
			state: state{phase: following, nextTry: at.Add(4 * second), quietUntil: at.Add(4 * second)},
			event: event{kind: hinted, roll: .5}, phase: following,
			check: func(t *testing.T, s state) { require.Equal(t, at.Add(4*second), s.nextTry) },
		}, {
			name:  "resigning without leading is sitting out",
			state: state{phase: following, nextTry: at.Add(second)}, event: event{kind: resignAsked}, phase: following,
			check: func(t *testing.T, s state) { require.Equal(t, at.Add(5*second), s.nextTry) },
		}, {
			name:  "stop while following closes the session",
			state: state{phase: following}, event: event{kind: stopAsked}, phase: yielding, actions: []action{actDrop},
		}, {
			name:  "a refused lock is tried again after the interval less a fifth at least",
			state: state{phase: asking, inFlight: true}, event: event{kind: tried, roll: 0}, phase: following,
			check: func(t *testing.T, s state) { require.Equal(t, at.Add(800*time.Millisecond), s.nextTry) },
		}, {
			name:  "and a fifth more at most",
			state: state{phase: asking, inFlight: true}, event: event{kind: tried, roll: 1}, phase: following,
			check: func(t *testing.T, s state) { require.Equal(t, at.Add(1200*time.Millisecond), s.nextTry) },
		}, {
			name:  "a hint that came while asking is not lost",
			state: state{phase: asking, inFlight: true, hint: true}, event: event{kind: tried, roll: .5}, phase: following,
			check: func(t *testing.T, s state) { require.Equal(t, at.Add(100*time.Millisecond), s.nextTry) },
		}, {
			name:  "a granted lock raises the epoch",
			state: state{phase: asking, inFlight: true}, event: event{kind: tried, won: true}, phase: winning,
			actions: []action{actBump},
		}, {
			name:  "a lock granted to one who has resigned meanwhile is given back",
			state: state{phase: asking, inFlight: true, resign: true}, event: event{kind: tried, won: true}, phase: yielding,
			actions: []action{actRelease},
		}, {
			name:  "a failed try closes the session",
			state: state{phase: asking, inFlight: true}, event: event{kind: failed, roll: .5}, phase: yielding,
			actions: []action{actDrop},
			check:   func(t *testing.T, s state) { require.Equal(t, at.Add(second), s.nextTry) },
		}, {
			name:  "an unfit session is tried rarely",
			state: state{phase: asking, inFlight: true}, event: event{kind: failed, unfit: true}, phase: yielding,
			actions: []action{actDrop},
			check:   func(t *testing.T, s state) { require.Equal(t, at.Add(time.Minute), s.nextTry) },
		}, {
			name:  "a raised epoch begins the reign, with trust from before the question",
			state: state{phase: winning, inFlight: true},
			event: event{kind: bumped, askedAt: at.Add(-2 * second), term: Term{Epoch: 7}}, phase: leading, actions: []action{actLead},
			check: func(t *testing.T, s state) {
				require.Equal(t, at.Add(7*second), s.trustEnd)
				require.EqualValues(t, 7, s.term.Epoch)
				require.True(t, s.jobs)
			},
		}, {
			name:  "an epoch whose trust is over already begins nothing",
			state: state{phase: winning, inFlight: true}, event: event{kind: bumped, askedAt: at.Add(-9 * second)}, phase: yielding,
			actions: []action{actRelease},
		}, {
			name:  "a failed bump closes the session, and with it the lock",
			state: state{phase: winning, inFlight: true}, event: event{kind: failed}, phase: yielding, actions: []action{actDrop},
		}, {
			name:  "resigning interrupts a bump",
			state: state{phase: winning, inFlight: true}, event: event{kind: resignAsked}, phase: winning,
			actions: []action{actInterrupt},
		}, {
			name:  "leading asks when a third of the lease has gone",
			state: leadingSince(16 * second), event: event{kind: ticked}, phase: leading, actions: []action{actBeat},
		}, {
			name:  "leading does not ask twice at once",
			state: func() state { s := leadingSince(16 * second); s.inFlight = true; return s }(),
			event: event{kind: ticked}, phase: leading,
		}, {
			name:  "an answer opens new trust, from before the question",
			state: leadingSince(16 * second), event: event{kind: beaten, askedAt: at.Add(-second)}, phase: leading,
			check: func(t *testing.T, s state) { require.Equal(t, at.Add(8*second), s.trustEnd) },
		}, {
			name:  "trust ends on the clock alone, with a question in flight",
			state: func() state { s := leadingSince(11 * second); s.inFlight = true; return s }(),
			event: event{kind: ticked}, phase: yielding, actions: []action{actDemote, actInterrupt},
			check: func(t *testing.T, s state) { require.Equal(t, Expired, s.reason) },
		}, {
			name:  "an answer that comes after the end of trust opens none",
			state: func() state { s := leadingSince(11 * second); s.inFlight = true; return s }(),
			event: event{kind: beaten, askedAt: at.Add(-second)}, phase: yielding, actions: []action{actDemote, actDrop},
		}, {
			name:  "a failed heartbeat ends the reign and closes the session before the jobs have ended",
			state: func() state { s := leadingSince(16 * second); s.inFlight = true; return s }(),
			event: event{kind: failed, reason: HeartbeatFailed}, phase: yielding, actions: []action{actDemote, actDrop},
			check: func(t *testing.T, s state) { require.Equal(t, HeartbeatFailed, s.reason) },
		}, {
			name:  "resigning waits for the jobs",
			state: leadingSince(19 * second), event: event{kind: resignAsked}, phase: yielding, actions: []action{actDemote},
			check: func(t *testing.T, s state) { require.Equal(t, at.Add(500*time.Millisecond), s.wakeAt()) },
		}, {
			name:  "jobs that end by themselves end the reign in good order",
			state: leadingSince(19 * second), event: event{kind: jobsEnded}, phase: yielding, actions: []action{actDemote, actRelease},
			check: func(t *testing.T, s state) { require.Equal(t, JobsEnded, s.reason) },
		}, {
			name:  "the lock is freed when the jobs have ended",
			state: state{phase: yielding, graceful: true, jobs: true, waitEnd: at.Add(second)}, event: event{kind: jobsEnded},
			phase: yielding, actions: []action{actRelease},
		}, {
			name:  "the lock is freed when the jobs do not end in time",
			state: state{phase: yielding, graceful: true, jobs: true, waitEnd: at}, event: event{kind: ticked},
			phase: yielding, actions: []action{actRelease},
		}, {
			name:  "a resignation lets the question in flight finish",
			state: state{phase: yielding, graceful: true, inFlight: true, waitEnd: at.Add(second)}, event: event{kind: ticked},
			phase: yielding,
		}, {
			name:  "but not for long",
			state: state{phase: yielding, graceful: true, inFlight: true, waitEnd: at}, event: event{kind: ticked},
			phase: yielding, actions: []action{actInterrupt},
		}, {
			name:  "no campaign begins before the jobs have ended",
			state: state{phase: yielding, jobs: true, inFlight: true}, event: event{kind: closed}, phase: yielding,
			check: func(t *testing.T, s state) { require.True(t, s.free()) },
		}, {
			name:  "a campaign begins when they have",
			state: state{phase: yielding, jobs: true, closed: true, nextTry: at, quietUntil: at.Add(second)}, event: event{kind: jobsEnded},
			phase: following,
			check: func(t *testing.T, s state) { require.Equal(t, at.Add(second), s.nextTry) },
		}, {
			name:  "stop ends in stopped",
			state: state{phase: yielding, inFlight: true, stop: true}, event: event{kind: closed}, phase: stopped,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			next, actions := testRules.step(test.state, test.event, at)
			require.Equal(t, test.phase, next.phase)
			require.Equal(t, test.actions, actions)
			if test.check != nil {
				test.check(t, next)
			}
		})
	}
}

// TestStepHoldsItsPromises drives the core with whatever may happen in whatever order, and checks after each step what
// doc.go promises.
func TestStepHoldsItsPromises(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now := moment(0)
		s := state{phase: following, nextTry: now}
		var askedAt time.Time
		const none = actLead // no question that awaits an answer
		question := none
		running, open, granted, stopping := false, false, false, false
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 4000).Draw(t, "pause")) * time.Millisecond)
			e := event{kind: ticked, roll: rapid.Float64Range(0, 1).Draw(t, "roll")}
			switch what := rapid.IntRange(0, 9).Draw(t, "what"); {
			case what == 0:
				e.kind = hinted
			case what == 1:
				e.kind = resignAsked
			case what == 2 && rapid.Bool().Draw(t, "stop"):
				e.kind, stopping = stopAsked, true
			case what == 3 && running:
				e.kind, running = jobsEnded, false
			case what > 3 && question != none:
				e.askedAt = askedAt
				e.kind = map[action]eventKind{actTry: tried, actBump: bumped, actBeat: beaten, actRelease: closed, actDrop: closed}[question]
				if e.kind != closed && rapid.Bool().Draw(t, "fails") {
					e.kind, e.reason = failed, HeartbeatFailed
				}
				if e.kind == tried {
					open, e.won = true, rapid.Bool().Draw(t, "won")
					granted = e.won
				}
				if e.kind == closed {
					open, granted = false, false
				}
				question = none
			}
			before := s
			var actions []action
			s, actions = testRules.step(s, e, now)
			for _, a := range actions {
				switch a {
				case actLead:
					require.False(t, running, "two reigns at once in one elector")
					require.True(t, granted, "a reign without the lock")
					running = true
				case actDemote:
					require.Equal(t, leading, before.phase)
				case actInterrupt:
					require.NotEqual(t, none, question, "nothing to interrupt")
				default:
					require.Equal(t, none, question, "two questions at once")
					if a == actTry {
						require.False(t, granted, "asked for a lock that is held")
						require.False(t, running, "campaigned while jobs were running")
					}
					question, askedAt = a, now
				}
			}
			if s.phase == leading {
				require.True(t, running)
				require.False(t, s.trustEnd.After(askedAt.Add(testRules.lease-testRules.margin)), "trust beyond the last question")
			}
			if before.phase == leading && s.phase != leading {
				require.Contains(t, actions, actDemote)
			}
			if e.kind == ticked && s.phase == leading {
				require.True(t, now.Before(s.trustEnd), "leads after the end of trust")
			}
			if s.phase == following {
				require.False(t, s.wakeAt().IsZero(), "would never try again")
			}
			if s.free() {
				require.False(t, granted, "says free while it holds the lock")
			}
		}
		if stopping && !s.inFlight && !s.jobs {
			require.Equal(t, stopped, s.phase)
			require.False(t, open)
		}
	})
}
