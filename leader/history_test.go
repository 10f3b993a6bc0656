package leader_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// makeHistory has the server write down, in one order, who was given leadership and what was written under which reign.
// Each transaction draws its moment at its end, by deferred triggers, while it still holds its locks: a bump waits for all
// fenced transactions before it, and they for it, so that moments order them as their commits do.
const makeHistory = `
create schema history;
create sequence history.moment;
create table history.written (
  id bigint generated always as identity primary key, timeline text not null, epoch bigint not null, start_id uuid not null);
create table history.log (
  moment bigint primary key, kind text not null, timeline text not null, epoch bigint not null, start_id uuid, server text not null);
create function history.timeline() returns text language sql as $$ select left(pg_walfile_name(pg_current_wal_lsn()), 8) $$;
create function history.note_reign() returns trigger language plpgsql as $$
begin
  insert into history.log values (nextval('history.moment'), case when new.start_id is null then 'vacated' else 'granted' end,
    history.timeline(), new.epoch, new.start_id, history.timeline());
  return null;
end $$;
create constraint trigger note_reign after update on waggle.leader deferrable initially deferred
  for each row execute function history.note_reign();
create function history.note_written() returns trigger language plpgsql as $$
begin
  insert into history.log values (nextval('history.moment'), 'written', new.timeline, new.epoch, new.start_id, history.timeline());
  return null;
end $$;
create constraint trigger note_written after insert on history.written deferrable initially deferred
  for each row execute function history.note_written();`

// Kinds of entries.
const (
	granted = "granted"
	vacated = "vacated"
	written = "written"
)

// entry is one committed transaction of the history. Timeline is what the reign says, Server what the server was on.
type entry struct {
	Moment   int64
	Kind     string
	Timeline string
	Epoch    int64
	StartID  uuid.UUID
	Server   string
}

func (e entry) String() string {
	return fmt.Sprintf("%d: %s (%s, %d, %s) on timeline %s", e.Moment, e.Kind, e.Timeline, e.Epoch, e.StartID, e.Server)
}

func (e entry) sameReign(other entry) bool {
	return e.Timeline == other.Timeline && e.Epoch == other.Epoch && e.StartID == other.StartID
}

// violations checks a history: each grant is above all before it, and each row was written under the highest reign that
// had been granted by then, which had not been given up.
func violations(history []entry) (found []string) {
	var reign *entry
	var highest entry
	for _, e := range history {
		switch e.Kind {
		case granted:
			if e.Timeline < highest.Timeline || e.Timeline == highest.Timeline && e.Epoch <= highest.Epoch {
				found = append(found, fmt.Sprintf("%v is not above %v", e, highest))
			}
			highest = e
			reign = &e
		case vacated:
			if reign != nil && reign.Epoch == e.Epoch {
				reign = nil
			}
		case written:
			switch {
			case reign == nil:
				found = append(found, fmt.Sprintf("%v while nobody led", e))
			case !e.sameReign(*reign):
				found = append(found, fmt.Sprintf("%v under %v", e, *reign))
			case e.Server != e.Timeline:
				found = append(found, fmt.Sprintf("%v on the wrong timeline", e))
			}
		}
	}
	return found
}

func readHistory(t testing.TB, url string) []entry {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	rows, err := conn.Query(t.Context(), `select moment, kind, timeline, epoch, coalesce(start_id, '00000000-0000-0000-0000-000000000000'), server
		from history.log order by moment`)
	require.NoError(t, err)
	history, err := pgx.CollectRows(rows, pgx.RowToStructByPos[entry])
	require.NoError(t, err)
	return history
}

// requireHistory checks it, and that each of the given number of reigns wrote something: an empty history proves nothing.
func requireHistory(t testing.TB, history []entry, reigns int) {
	t.Helper()
	if found := violations(history); len(found) > 0 {
		t.Errorf("%d violations, the first ones:\n%s", len(found), strings.Join(found[:min(len(found), 5)], "\n"))
	}
	began, wrote := map[string]bool{}, map[string]bool{}
	for _, e := range history {
		key := fmt.Sprint(e.Timeline, e.Epoch, e.StartID)
		switch e.Kind {
		case granted:
			began[key] = true
		case written:
			wrote[key] = true
		}
	}
	require.GreaterOrEqual(t, len(began), reigns)
	require.GreaterOrEqual(t, len(wrote), reigns, "reigns that wrote something")
}

func TestHistoryChecker(t *testing.T) {
	t.Parallel()
	a, b := uuid.New(), uuid.New()
	reign := func(kind, timeline string, epoch int64, who uuid.UUID) entry {
		return entry{Kind: kind, Timeline: timeline, Epoch: epoch, StartID: who, Server: timeline}
	}
	wrongServer := reign(written, "1", 1, a)
	wrongServer.Server = "2"
	for name, test := range map[string]struct {
		history []entry
		found   int
	}{
		"two reigns in turn": {[]entry{
			reign(granted, "1", 1, a), reign(written, "1", 1, a), reign(granted, "1", 2, b), reign(written, "1", 2, b),
		}, 0},
		"an old leader writes": {[]entry{
			reign(granted, "1", 1, a), reign(granted, "1", 2, b), reign(written, "1", 1, a),
		}, 1},
		"somebody writes before any grant": {[]entry{reign(written, "1", 1, a)}, 1},
		"a leader that gave up writes": {[]entry{
			reign(granted, "1", 1, a), reign(vacated, "1", 1, uuid.Nil), reign(written, "1", 1, a),
		}, 1},
		"an equal epoch of another start writes": {[]entry{reign(granted, "1", 1, a), reign(written, "1", 1, b)}, 1},
		"an epoch is granted twice":              {[]entry{reign(granted, "1", 1, a), reign(granted, "1", 1, b)}, 1},
		"an epoch falls on a higher timeline":    {[]entry{reign(granted, "1", 9, a), reign(granted, "2", 8, b), reign(written, "2", 8, b)}, 0},
		"a reign of the last timeline writes":    {[]entry{reign(granted, "1", 1, a), wrongServer}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Len(t, violations(test.history), test.found)
		})
	}
}
