package leader_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"waggle/pg/pgtest"
)

// Five candidates, and for two minutes something happens to whoever leads, or to its connection, or to anybody. The
// history of it all is checked at the end.
func TestLeadersInALongBadTime(t *testing.T) {
	if os.Getenv("WAGGLE_TEST_LEADER") == "" {
		t.Skip("takes minutes: make test-leader")
	}
	a := newArena(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	dice := rand.New(rand.NewPCG(seed, 0))
	type place struct {
		*competitor
		proxy *pgtest.Proxy
		runs  int
	}
	places := make([]*place, 5)
	fill := func(p *place, name string) {
		p.runs++
		p.competitor = a.start(fmt.Sprint(name, ".", p.runs), candidateSettings{LockURL: p.proxy.URL()})
		go drain(p.competitor)
	}
	for i := range places {
		places[i] = &place{proxy: pgtest.NewProxy(t, a.db.URL)}
		fill(places[i], fmt.Sprint("place-", i))
	}
	happened := map[string]int{}
	for began := time.Now(); time.Since(began) < 2*time.Minute; {
		i := dice.IntN(len(places))
		if leading := a.leading(); leading >= 0 && dice.IntN(2) == 0 {
			i = leading
		}
		p := places[i]
		pause := time.Duration(dice.Int64N(int64(2 * time.Second)))
		frozen := time.Duration(dice.Int64N(int64(2 * a.lease)))
		what := []string{"killed", "stopped", "frozen", "backend ended", "cut", "one way", "other way"}[dice.IntN(7)]
		happened[what]++
		switch what {
		case "killed", "stopped":
			p.signal(map[string]syscall.Signal{"killed": syscall.SIGKILL, "stopped": syscall.SIGTERM}[what])
			<-p.done
			fill(p, fmt.Sprint("place-", i))
		case "frozen":
			p.signal(syscall.SIGSTOP)
			time.Sleep(frozen)
			p.signal(syscall.SIGCONT)
		case "backend ended":
			a.exec(a.db.URL, "select pg_terminate_backend(pid) from waggle.leader where pid is not null")
		case "cut":
			p.proxy.Cut()
		default:
			direction := map[string]pgtest.Direction{"one way": pgtest.ToServer, "other way": pgtest.ToClient}[what]
			p.proxy.Swallow(direction, true)
			time.Sleep(frozen)
			p.proxy.Swallow(direction, false)
		}
		time.Sleep(pause)
	}
	history := readHistory(t, a.db.URL)
	reigns := 0
	for _, e := range history {
		if e.Kind == granted {
			reigns++
		}
	}
	t.Logf("%v; %d reigns, %d entries", happened, reigns, len(history))
	require.Greater(t, reigns, 5)
	requireHistory(t, history, 5)
}

// leading is the place whose candidate leads, or -1.
func (a *arena) leading() (place int) {
	a.Helper()
	conn, err := pgx.Connect(context.Background(), a.db.URL)
	require.NoError(a, err)
	defer conn.Close(context.Background())
	require.NoError(a, conn.QueryRow(context.Background(), `select coalesce(substring(name from '^place-(\d+)')::int, -1) from waggle.leader`).
		Scan(&place))
	return place
}

// drain reads what a candidate reports and nobody waits for.
func drain(c *competitor) {
	for {
		select {
		case <-c.reports:
		case <-c.done:
			return
		}
	}
}
