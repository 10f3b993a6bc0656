package leader

import (
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// moved is the same moment on a machine whose wall clock somebody has set: the monotonic reading stays. It writes into the
// seconds of the wall clock, which begin at bit 30 of a time that has both readings.
func moved(at time.Time, seconds int64) time.Time {
	inside := (*struct {
		wall uint64
		ext  int64
		loc  *time.Location
	})(unsafe.Pointer(&at))
	inside.wall += uint64(seconds) << 30
	return at
}

func TestMovedMovesTheWallClockOnly(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, seconds := range []int64{-86400, -1, 1, 86400} {
		set := moved(now, seconds)
		require.Zero(t, set.Sub(now))
		require.Equal(t, time.Duration(seconds)*time.Second, set.Round(0).Sub(now.Round(0)))
	}
}

// Two brokers live through the same events. The wall clock of one of them jumps by up to days before each, in either
// direction. They do the same, and wake at the same moments. (A whole process under libfaketime would prove nothing: Go
// programs do not ask the C library for the time.)
func TestWallClockJumpsChangeNothing(t *testing.T) {
	t.Parallel()
	dice := rand.New(rand.NewPCG(1, 2))
	jump := func(at time.Time) time.Time { return moved(at, dice.Int64N(6*86400)-3*86400) }
	seen := map[phase]int{}
	for range 150 {
		now := time.Now()
		start := func(at time.Time) state { return state{phase: following, nextTry: at} }
		steady, jumpy := start(now), start(jump(now))
		for range 60 {
			now = now.Add(time.Duration(dice.Int64N(int64(2 * time.Second))))
			e := someEvent(dice, steady, now)
			other := e
			other.askedAt = jump(e.askedAt)
			var did, alsoDid []action
			steady, did = testRules.step(steady, e, now)
			jumpy, alsoDid = testRules.step(jumpy, other, jump(now))
			require.Equal(t, did, alsoDid)
			requireSameState(t, steady, jumpy)
			seen[steady.phase]++
		}
	}
	for _, p := range []phase{following, asking, winning, leading, yielding, stopped} {
		require.Positive(t, seen[p], "phase %d was never reached", p)
	}
}

// someEvent is one that the loop could hand to the core in this state; answers come for questions in flight only.
func someEvent(dice *rand.Rand, s state, now time.Time) event {
	e := event{kind: ticked, roll: dice.Float64(), askedAt: now.Add(-time.Duration(dice.Int64N(int64(time.Second))))}
	switch roll := dice.IntN(100); {
	case roll < 2:
		e.kind = resignAsked
	case roll < 3:
		e.kind = stopAsked
	case roll < 10:
		e.kind = hinted
	case roll < 60 && s.inFlight:
		e.kind = map[phase]eventKind{asking: tried, winning: bumped, leading: beaten, yielding: closed}[s.phase]
		e.won = dice.IntN(2) == 0
		e.term = Term{Epoch: dice.Int64()}
	case roll < 65 && s.inFlight && s.phase != yielding:
		e.kind, e.reason = failed, HeartbeatFailed
	case roll < 75 && s.jobs && s.phase == yielding:
		e.kind = jobsEnded
	}
	return e
}

// requireSameState compares times as the core does, by their monotonic readings.
func requireSameState(t *testing.T, a, b state) {
	t.Helper()
	require.WithinDuration(t, a.wakeAt(), b.wakeAt(), 0)
	times := reflect.TypeFor[time.Time]()
	left, right := reflect.ValueOf(&a).Elem(), reflect.ValueOf(&b).Elem()
	for i := range left.NumField() {
		if left.Field(i).Type() != times {
			continue
		}
		one := (*time.Time)(left.Field(i).Addr().UnsafePointer())
		other := (*time.Time)(right.Field(i).Addr().UnsafePointer())
		require.Zero(t, one.Sub(*other), left.Type().Field(i).Name)
		*one, *other = time.Time{}, time.Time{}
	}
	require.Equal(t, a, b)
}

// What decides about leadership takes no time apart: the functions that would lose the monotonic reading, or look at the
// wall clock, are not used.
func TestNothingThatDecidesLooksAtTheWallClock(t *testing.T) {
	t.Parallel()
	allowed := []string{
		"Now", "Since", "Until", "NewTimer", "Time", "Timer", "Duration", "Millisecond", "Second", "Minute", "Hour",
	}
	forbidden := []string{
		"AddDate", "AppendFormat", "Compare", "Equal", "Format", "In", "Local", "Round", "Truncate", "UTC", "Unix", "UnixMicro",
		"UnixMilli", "UnixNano",
	}
	for _, name := range []string{"core.go", "elector.go", "loop.go", "linger.go"} {
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(file, func(node ast.Node) bool {
			selector, ok := node.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if of, ok := selector.X.(*ast.Ident); ok && of.Name == "time" {
				require.True(t, slices.Contains(allowed, selector.Sel.Name), "%s: time.%s", files.Position(node.Pos()), selector.Sel.Name)
				return true
			}
			require.False(t, slices.Contains(forbidden, selector.Sel.Name), "%s: %s", files.Position(node.Pos()), selector.Sel.Name)
			return true
		})
	}
}
