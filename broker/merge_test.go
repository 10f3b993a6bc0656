package broker

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Configurations through several brokers at once all land, and what a newer build has stored survives each of them.
func TestConfigurationsAtOnceAllLandAndKeepWhatNewerBuildsStored(t *testing.T) {
	t.Parallel()
	tb := newBundle(t, 3)
	conn := tb.connect()
	tb.configure(tb.brokers[0], "q", map[string]any{"ttl": 1})
	_, err := conn.Exec(t.Context(), `update waggle.queue set options = options || '{"colour": "blue"}' where name = 'q'`)
	require.NoError(t, err)
	options := []string{"retryLimit", "retryDelay", "priority", "maxSize", "delayedProcessing", "windowBuffer"}
	var all sync.WaitGroup
	for i, option := range options {
		all.Go(func() {
			answer, err := tb.brokers[i%3].Configure(t.Context(), ConfigureRequest{
				Tenant: DefaultTenant, Queue: "q", Options: map[string]any{option: 40 + i, "shape": "round"},
			})
			if err != nil || fmt.Sprint(answer.Ignored) != "[shape]" {
				t.Errorf("%s: %+v, %v", option, answer, err)
			}
		})
	}
	all.Wait()
	for i, option := range options {
		require.Equal(t, int64(40+i), tb.count(conn, "select (options ->> $1)::int from waggle.queue where name = 'q'", option))
	}
	require.Equal(t, int64(len(options)+1), tb.count(conn, "select version from waggle.queue where name = 'q'")-1)
	answer, err := tb.brokers[1].Configure(t.Context(), ConfigureRequest{Tenant: DefaultTenant, Queue: "q", Replace: true, Options: map[string]any{"ttl": 2}})
	require.NoError(t, err)
	require.Equal(t, int64(len(options)+3), answer.OptionsVersion)
	require.Equal(t, int64(1), tb.count(conn, `select count(*) from waggle.queue where options @> '{"colour": "blue", "ttl": 2}' and not options ? 'priority' and not options ? 'shape'`))
}
