package node_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"waggle/client"
	"waggle/pg/pgtest"
)

// A broker that speaks only the first version of frames, which know no tenant, serves beside two that speak the second, while
// twenty tenants use the same queue names. Each tenant gets its own messages, all and in order, through whichever brokers.
func TestAnOldBrokerAmongNewOnesServesManyTenants(t *testing.T) {
	const tenants = 20
	tenancy := []string{"QUEEN_TENANCY_HEADER=true", "QUEEN_KV_TRUSTED_PROXY=1"}
	database := pgtest.New(t).URL
	old := newMember(t, "old", database, append(tenancy, "WAGGLE_MESH_FRAME_MAX=1")...)
	old.launch(t)
	old.awaitListening(t)
	c := append(cluster{old}, startCluster(t, database, 2, tenancy...)...)
	c.awaitMesh(t)
	var names []string
	for range tenants {
		names = append(names, uuid.NewString())
	}
	as := func(m *member, tenant string) client.Config {
		return client.Config{URLs: []string{m.url}, Tenant: tenant}
	}

	t.Run("messages", func(t *testing.T) {
		ways := map[string][2]*member{"v1 to v2": {c[0], c[1]}, "v2 to v1": {c[1], c[0]}, "v2 to v2": {c[1], c[2]}}
		couriers := map[string][]*courier{}
		for i, way := range slices.Sorted(maps.Keys(ways)) {
			for n, tenant := range names {
				what := fmt.Sprintf("%s, tenant %d", way, n)
				queue := fmt.Sprintf("shared-%d", i)
				couriers[way] = append(couriers[way], startCourier(t, what, queue, as(ways[way][0], tenant), as(ways[way][1], tenant), 200*time.Millisecond))
			}
		}
		for _, all := range couriers {
			for _, one := range all {
				one.lap() // from a time when not everybody was there
			}
		}
		time.Sleep(3 * time.Second) // of load
		for _, way := range slices.Sorted(maps.Keys(couriers)) {
			var took times
			for _, one := range couriers[way] {
				took = append(took, one.finish(t)...)
			}
			t.Logf("%s: from push to answer: %v", way, took)
			require.Less(t, took.at(0.5), patience/4, way)
		}
		require.Positive(t, c[1].metric(t, `waggle_mesh_frames_in_total{kind="wake",version="1"}`))
		require.Positive(t, c[2].metric(t, `waggle_mesh_frames_in_total{kind="wake",version="2"}`))
		require.Zero(t, old.metric(t, `waggle_mesh_frames_in_total{kind="wake",version="2"}`))
	})

	t.Run("configurations", func(t *testing.T) {
		configurationsReachEveryTenant(t, c, names, as)
	})
}

// configurationsReachEveryTenant changes a queue of one tenant through each broker in turn, and sees the change through the
// others, and only there.
func configurationsReachEveryTenant(t *testing.T, c cluster, tenants []string, as func(*member, string) client.Config) {
	const queue = "tuned"
	clients := map[*member]map[string]*client.Client{}
	for _, m := range c {
		clients[m] = map[string]*client.Client{}
		for _, tenant := range tenants {
			clients[m][tenant] = newClientOf(t, as(m, tenant))
		}
	}
	push := func(m *member, tenant, id string) client.PushStatus {
		results, err := clients[m][tenant].Push(t.Context(), []client.Item{{Queue: queue, TransactionID: id}})
		require.NoError(t, err)
		return results[0].Status
	}
	invalidations := func(m *member, version string) float64 {
		return m.metric(t, fmt.Sprintf(`waggle_mesh_frames_in_total{kind="invalidation",version=%q}`, version))
	}
	var before []float64
	for _, m := range c {
		before = append(before, invalidations(m, "1"))
	}
	for n, tenant := range tenants {
		by, other, third := c[n%3], c[(n+1)%3], c[(n+2)%3]
		for _, m := range c {
			require.Equal(t, client.Queued, push(m, tenant, "warm-"+m.name), "every broker knows the queue by now")
		}
		_, err := clients[by][tenant].Configure(t.Context(), client.Configuration{Queue: queue, Options: map[string]any{"dedupWindowSeconds": 0}})
		require.NoError(t, err)
		for _, m := range []*member{other, third} {
			require.Equal(t, client.Queued, push(m, tenant, "warm-"+by.name), "%s forgot the window that %s took away", m.name, by.name)
		}
	}
	for i, m := range c {
		eventually(t, m.name+" was told in frames without tenant", func() bool { return invalidations(m, "1") > before[i] })
	}

	// Its queue deleted and made anew through other brokers, a tenant finds what it put into the new one, and no other tenant
	// misses anything.
	gone, bystander := tenants[0], tenants[1]
	existed, err := clients[c[0]][gone].DeleteQueue(t.Context(), queue)
	require.NoError(t, err)
	require.True(t, existed)
	require.Equal(t, client.Queued, push(c[1], gone, "anew"))
	require.Equal(t, []string{"anew"}, drainAll(t, clients[c[2]][gone], queue))
	require.Len(t, drainAll(t, clients[c[2]][bystander], queue), len(c)+2)
}

func drainAll(t testing.TB, by *client.Client, queue string) (ids []string) {
	t.Helper()
	for {
		got, err := by.Pop(t.Context(), client.PopRequest{Queue: queue, AutoAck: true, Batch: 100})
		require.NoError(t, err)
		if got == nil {
			return ids
		}
		for _, m := range got.Messages {
			ids = append(ids, m.TransactionID)
		}
	}
}
