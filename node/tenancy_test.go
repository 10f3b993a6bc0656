package node_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"waggle/client"
	"waggle/pg/pgtest"
)

// Two tenants that use the same names meet nowhere, although an old broker's frames wake both.
func TestTenantsShareNamesAndNothingElse(t *testing.T) {
	database := pgtest.New(t).URL
	tenancy := []string{"QUEEN_TENANCY_HEADER=true", "QUEEN_KV_TRUSTED_PROXY=1"}
	old := newMember(t, "old", database, append(tenancy, "WAGGLE_MESH_FRAME_MAX=1")...)
	old.launch(t)
	old.awaitListening(t)
	c := append(cluster{old}, startCluster(t, database, 2, tenancy...)...)
	c.awaitMesh(t)
	tenants := []string{uuid.NewString(), uuid.NewString()}
	of := func(tenant int, m *member) *client.Client {
		return newClientOf(t, client.Config{URLs: []string{m.url}, Tenant: tenants[tenant]})
	}

	t.Run("a frame without tenant wakes both", func(t *testing.T) {
		modern := c[1]
		var parked []<-chan popped
		for tenant := range tenants {
			parked = append(parked, popBeside(t, of(tenant, modern), client.PopRequest{
				Queue: "bills", Wait: true, AutoAck: true,
			}))
		}
		modern.awaitParked(t, 2)
		wakes := func() float64 {
			return modern.metric(t, `waggle_broker_wakes_total{scope="partition"}`) + modern.metric(t, `waggle_broker_wakes_total{scope="queue"}`)
		}
		before := wakes()
		frames := modern.metric(t, `waggle_mesh_frames_in_total{kind="wake",version="1"}`)
		push := func(tenant int) time.Time {
			began := time.Now()
			_, err := of(tenant, old).Push(t.Context(), []client.Item{{Queue: "bills", Payload: json.RawMessage(fmt.Sprint(tenant))}})
			require.NoError(t, err)
			return began
		}
		began := push(0)
		first := <-parked[0]
		require.NoError(t, first.err)
		require.Equal(t, "0", string(first.answer.Messages[0].Data))
		require.Less(t, first.at.Sub(began), 500*time.Millisecond)
		eventually(t, "both tenants were woken", func() bool { return wakes() >= before+2 })
		require.Greater(t, modern.metric(t, `waggle_mesh_frames_in_total{kind="wake",version="1"}`), frames)
		require.Positive(t, modern.metric(t, "waggle_mesh_fanouts_total"))
		modern.awaitParked(t, 1)

		began = push(1)
		second := <-parked[1]
		require.NoError(t, second.err)
		require.Equal(t, "1", string(second.answer.Messages[0].Data))
		require.Less(t, second.at.Sub(began), 500*time.Millisecond)
	})

	t.Run("messages, acks, leases and queues are each tenant's own", func(t *testing.T) {
		for n := range 30 {
			for tenant := range tenants {
				results, err := of(tenant, c[n%3]).Push(t.Context(), []client.Item{{
					Queue: "orders", Partition: fmt.Sprint("p", n%4), TransactionID: fmt.Sprint("same-", n),
					Payload: json.RawMessage(fmt.Sprint(tenant)),
				}})
				require.NoError(t, err)
				require.Equal(t, client.Queued, results[0].Status, "the other tenant's message is no duplicate")
			}
		}
		for tenant := range tenants {
			stranger := of(1-tenant, c[2])
			seen := 0
			for n := 0; seen < 30; n++ {
				got, err := of(tenant, c[n%3]).Pop(t.Context(), client.PopRequest{Queue: "orders", Group: "g", Mode: "all", Batch: 7, Partitions: 2})
				require.NoError(t, err)
				require.NotNil(t, got)
				for _, m := range got.Messages {
					require.Equal(t, fmt.Sprint(tenant), string(m.Data))
				}
				seen += len(got.Messages)

				results, err := stranger.AckBatch(t.Context(), "g", got.Completed())
				require.NoError(t, err)
				require.Equal(t, "partition not owned by tenant", results[0].Error)
				extension, err := stranger.Extend(t.Context(), got.LeaseID, time.Minute)
				require.NoError(t, err)
				require.Zero(t, extension.Renewed)
				results, err = of(tenant, c[(n+1)%3]).AckBatch(t.Context(), "g", got.Completed())
				require.NoError(t, err)
				for _, r := range results {
					require.True(t, r.Success, r.Error)
				}
			}
			require.Equal(t, 30, seen)
		}
		existed, err := of(0, c[0]).DeleteQueue(t.Context(), "orders")
		require.NoError(t, err)
		require.True(t, existed)
		queues, err := of(1, c[1]).Queues(t.Context())
		require.NoError(t, err)
		require.Len(t, queues, 2)
		queues, err = of(0, c[1]).Queues(t.Context())
		require.NoError(t, err)
		require.Len(t, queues, 1)
	})

	t.Run("a header that is no UUID is refused, none is the default tenant", func(t *testing.T) {
		got := call(t, http.MethodGet, c[1].url+"/api/v1/resources/queues", "", client.TenantHeader, "acme")
		require.Equal(t, http.StatusBadRequest, got.status)
		require.JSONEq(t, `{"error":"invalid x-queen-tenant header (must be a UUID)"}`, got.body)
		got = call(t, http.MethodGet, c[1].url+"/api/v1/resources/queues", "")
		require.Equal(t, http.StatusOK, got.status)
		require.NotContains(t, got.body, "bills")
	})
}
