package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSeeksAndDeletionsOfGroupsLetThemConsumeAnew(t *testing.T) {
	t.Parallel()
	l := newLive(t, 2)
	l.push("bills", "acme", 0, 2)
	l.push("bills", "ex/tra", 2, 3)
	consume := func(want ...int) {
		t.Helper()
		var got []int
		for {
			messages, lease := l.pop("bills", "consumerGroup=le/dger")
			if messages == nil {
				break
			}
			l.ack("le/dger", lease, "completed", messages...)
			got = append(got, numbersOf(messages)...)
		}
		require.ElementsMatch(t, want, got)
	}
	same := func(method, target, body, want string) {
		t.Helper()
		code, text := l.send(method, target, body)
		require.Equal(t, http.StatusOK, code, text)
		require.Equal(t, want, text)
	}
	const group = "/api/v1/consumer-groups/le/dger"
	consume(0, 1, 2)
	same("POST", group+"/queues/bills/seek", `{"timestamp":"2001-02-03T04:05:06.789012+01:00","toEnd":false}`,
		`{"success":true,"consumerGroup":"le/dger","queueName":"bills","seekToEnd":false,"targetTimestamp":"2001-02-03T03:05:06.789Z","partitionsUpdated":2}`)
	consume(0, 1, 2)
	same("POST", group+"/queues/bills/partitions/acme/seek", `{"timestamp":"2001-02-03"}`,
		`{"success":true,"consumerGroup":"le/dger","queueName":"bills","partitionName":"acme","seekToEnd":false,"targetTimestamp":"2001-02-03T00:00:00.000Z","updated":true}`)
	for _, body := range []string{``, " \n", `{}`, `{"toEnd":true}`} {
		same("POST", group+"/queues/bills/partitions/acme/seek", body,
			`{"success":true,"consumerGroup":"le/dger","queueName":"bills","partitionName":"acme","seekToEnd":true,"targetTimestamp":null,"updated":true}`)
	}
	consume()
	same("POST", group+"/queues/bills/partitions/ex/tra/seek", `{"timestamp":"2001-02-03","toEnd":null}`,
		`{"success":true,"consumerGroup":"le/dger","queueName":"bills","partitionName":"ex/tra","seekToEnd":false,"targetTimestamp":"2001-02-03T00:00:00.000Z","updated":true}`)
	consume(2)
	same("DELETE", group+"?deleteMetadata=true", "", `{"success":true,"consumerGroup":"le/dger","deletedPartitions":2,"metadataDeleted":true}`)
	consume(0, 1, 2)
	same("DELETE", group+"/queues/bills?deleteMetadata=no", "", `{"success":true,"consumerGroup":"le/dger","queueName":"bills","deletedPartitions":2,"metadataDeleted":false}`)
	consume(0, 1, 2)
	same("POST", group+"/subscription", `{"subscriptionTimestamp":"2031-01-01T00:00:00Z"}`,
		`{"success":true,"consumerGroup":"le/dger","newTimestamp":"2031-01-01T00:00:00.000Z","rowsUpdated":1}`)
	consume()

	for _, name := range []string{"unknown", "lagging", "%00", strings.Repeat("x", 2000)} {
		answer := l.object(http.StatusOK, "DELETE", "/api/v1/consumer-groups/"+name+"?deleteMetadata=true", "")
		require.EqualValues(t, 0, answer["deletedPartitions"])
		require.Equal(t, false, answer["metadataDeleted"])
	}
}

func TestGroupActionsOfAnotherTenantFindNothing(t *testing.T) {
	t.Parallel()
	l := newLive(t, 1)
	l.push("bills", "acme", 0, 1)
	messages, lease := l.pop("bills", "consumerGroup=ledger")
	l.ack("ledger", lease, "completed", messages...)
	foreign := []string{"X-Queen-Tenant", stranger.String()}
	const group = "/api/v1/consumer-groups/ledger"
	code, text := l.send("POST", group+"/queues/bills/seek", `{"timestamp":"2001-02-03"}`, foreign...)
	require.Equal(t, http.StatusNotFound, code)
	require.Equal(t, `{"success":false,"error":"Queue not found or has no partitions","consumerGroup":"ledger","queueName":"bills",`+
		`"seekToEnd":false,"targetTimestamp":"2001-02-03T00:00:00.000Z","partitionsUpdated":0}`, text)
	code, text = l.send("POST", group+"/queues/bills/partitions/acme/seek", `{"timestamp":"2001-02-03"}`, foreign...)
	require.Equal(t, http.StatusNotFound, code)
	require.Equal(t, `{"success":false,"error":"Partition not found","consumerGroup":"ledger","queueName":"bills","partitionName":"acme",`+
		`"seekToEnd":false,"targetTimestamp":"2001-02-03T00:00:00.000Z","updated":false}`, text)
	for _, target := range []string{group, group + "/queues/bills"} {
		answer := l.object(http.StatusOK, "DELETE", target+"?deleteMetadata=1", "", foreign...)
		require.EqualValues(t, 0, answer["deletedPartitions"])
	}
	answer := l.object(http.StatusOK, "POST", group+"/subscription", `{"subscriptionTimestamp":"2001-02-03"}`, foreign...)
	require.EqualValues(t, 0, answer["rowsUpdated"])
	messages, _ = l.pop("bills", "consumerGroup=ledger")
	require.Empty(t, messages, "nothing was moved")
}

func TestBadGroupActionsAreRefusedWithTheField(t *testing.T) {
	t.Parallel()
	l := newLive(t, 1)
	l.push("q", "p", 0, 1)
	const neither = "Must specify toEnd=true or a timestamp"
	for _, c := range []struct{ path, body, want string }{
		{"/queues/q/seek", ``, "bad body: expected an object"},
		{"/queues/q/seek", `[]`, "bad body: expected an object"},
		{"/queues/q/seek", `{"toEnd":true`, "bad body: "},
		{"/queues/q/seek", `{}`, neither},
		{"/queues/q/seek", `{"toEnd":false}`, neither},
		{"/queues/q/seek", `{"toEnd":null,"timestamp":null}`, neither},
		{"/queues/q/seek", `{"toEnd":"yes"}`, "toEnd must be true or false"},
		{"/queues/q/seek", `{"timestamp":1700000000}`, "bad body: expected a string"},
		{"/queues/q/seek", `{"timestamp":"yesterday"}`, "timestamp must be an ISO 8601 time"},
		{"/queues/q/partitions/p/seek", `{"toEnd":false}`, neither},
		{"/queues/q/partitions/p/seek", `{"timestamp":"2031-13-01"}`, "timestamp must be an ISO 8601 time"},
		{"/queues/q/partitions/p/seek", `7`, "bad body: expected an object"},
		{"/subscription", ``, "bad body: expected an object"},
		{"/subscription", `{}`, "subscriptionTimestamp is required"},
		{"/subscription", `{"subscriptionTimestamp":""}`, "subscriptionTimestamp is required"},
		{"/subscription", `{"subscriptionTimestamp":"now"}`, "subscriptionTimestamp must be an ISO 8601 time"},
	} {
		answer := l.object(http.StatusBadRequest, "POST", "/api/v1/consumer-groups/g"+c.path, c.body)
		require.Contains(t, answer["error"], c.want, "%s %s", c.path, c.body)
	}
}

func TestGroupsAreListedWithTheirLag(t *testing.T) {
	t.Parallel()
	l := newLive(t, 2)
	require.Equal(t, []map[string]any(nil), l.list("/api/v1/consumer-groups"))
	l.pop("bills", "consumerGroup=ledger") // registers it
	l.push("bills", "a", 0, 3)
	l.push("bills", "b", 3, 5)
	messages, lease := l.pop("bills/partition/a", "consumerGroup=ledger")
	l.ack("ledger", lease, "completed", messages[0])
	l.pop("orders", "consumerGroup=ledger&subscriptionMode=new")
	l.pop("bills", "partitions=5&autoAck=true")
	old := "update waggle.segment set created_at = created_at - interval '2 hours'"
	_, err := l.db.Pool().Exec(t.Context(), old)
	require.NoError(t, err)

	code, text := l.send("GET", "/api/v1/consumer-groups", "")
	require.Equal(t, http.StatusOK, code)
	const moment = `"20[0-9-]{8}T[0-9:]{8}\.[0-9]{3}Z"`
	require.Regexp(t, `^\[`+
		`{"name":"__QUEUE_MODE__","topics":\["bills"\],"queueName":"bills","members":2,"partitionCursors":2,"partitionsWithLag":0,"totalLag":0,"maxTimeLag":0,`+
		`"state":"Stable","storage":"segments","subscriptionMode":"all","subscriptionTimestamp":null,"subscriptionCreatedAt":`+moment+`,"conflation":false},`+
		`{"name":"ledger","topics":\["bills"\],"queueName":"bills","members":1,"partitionCursors":1,"partitionsWithLag":2,"totalLag":4,"maxTimeLag":720\d,`+
		`"state":"Lagging","storage":"segments","subscriptionMode":"all","subscriptionTimestamp":null,"subscriptionCreatedAt":`+moment+`,"conflation":false},`+
		`{"name":"ledger","topics":\["orders"\],"queueName":"orders","members":0,"partitionCursors":0,"partitionsWithLag":0,"totalLag":0,"maxTimeLag":0,`+
		`"state":"Dead","storage":"segments","subscriptionMode":"new","subscriptionTimestamp":`+moment+`,"subscriptionCreatedAt":`+moment+`,"conflation":false}`+
		`\]$`, text)

	code, text = l.send("GET", "/api/v1/consumer-groups/lagging", "")
	require.Equal(t, http.StatusOK, code)
	require.Regexp(t, `^\[{"consumer_group":"ledger","queue_name":"bills","partition_name":"a","partition_id":"`+l.partitionID("bills", "a")+
		`","worker_id":null,"offset_lag":2,"time_lag_seconds":720\d,"lag_hours":2,"oldest_unconsumed_at":`+moment+`,"last_consumed_at":null},{[^}]*"partition_name":"b"[^}]*}\]$`, text)
	require.Empty(t, l.list("/api/v1/consumer-groups/lagging?minLagSeconds=9000"))
	require.Empty(t, l.list("/api/v1/consumer-groups/lagging?minLagSeconds=99999999999"))
	require.Len(t, l.list("/api/v1/consumer-groups/lagging?minLagSeconds=x"), 2)

	code, text = l.send("GET", "/api/v1/consumer-groups/ledger", "")
	require.Equal(t, http.StatusOK, code)
	require.Regexp(t, `^{"bills":{"conflation":false,"partitions":\[`+
		`{"partition":"a","workerId":null,"lastConsumedAt":null,"totalConsumed":1,"offsetLag":2,"timeLagSeconds":720\d,"leaseActive":true},`+
		`{"partition":"b","workerId":null,"lastConsumedAt":null,"totalConsumed":0,"offsetLag":2,"timeLagSeconds":720\d,"leaseActive":false}\]},`+
		`"orders":{"conflation":false,"partitions":\[\]}}$`, text)
	for _, name := range []string{"unknown", "%00"} {
		code, text = l.send("GET", "/api/v1/consumer-groups/"+name, "")
		require.Equal(t, http.StatusOK, code)
		require.Equal(t, "{}", text)
	}

	foreign := []string{"X-Queen-Tenant", stranger.String()}
	require.Empty(t, l.ask(http.StatusOK, "GET", "/api/v1/consumer-groups", "", foreign...))
	require.Empty(t, l.ask(http.StatusOK, "GET", "/api/v1/consumer-groups/lagging?minLagSeconds=0", "", foreign...))
	require.Empty(t, l.ask(http.StatusOK, "GET", "/api/v1/consumer-groups/ledger", "", foreign...))
}

func TestDepthIsExactAndLive(t *testing.T) {
	t.Parallel()
	l := newLive(t, 2)
	depth := func(parameters, want string) {
		t.Helper()
		code, text := l.send("GET", "/api/v1/resources/queues/bi/lls/depth"+parameters, "")
		require.Equal(t, http.StatusOK, code, text)
		require.Equal(t, `{"queue":"bi/lls","group":`+want+`}`, text)
	}
	l.push("bi/lls", "a", 0, 3)
	l.push("bi/lls", "b", 3, 5)
	depth("?group=", `null,"pending":5,"processing":0,"ready":5,"partitionsPending":2,"partitionsReady":2,"conflation":false,"effectivePending":5,"effectiveReady":5,`+
		`"partitions":[{"partition":"a","pending":3,"processing":0,"ready":3},{"partition":"b","pending":2,"processing":0,"ready":2}]`)
	messages, lease := l.pop("bi%2Flls/partition/a", "consumerGroup=ledger&batch=2")
	l.ack("ledger", lease, "completed", messages[0])
	l.pop("bi%2Flls/partition/b", "consumerGroup=ledger")
	depth("?group=ledger", `"ledger","pending":4,"processing":3,"ready":1,"partitionsPending":2,"partitionsReady":1,"conflation":false,"effectivePending":4,"effectiveReady":1,`+
		`"partitions":[{"partition":"a","pending":2,"processing":1,"ready":1},{"partition":"b","pending":2,"processing":2,"ready":0}]`)
	_, err := l.db.Pool().Exec(t.Context(), "update waggle.consumer_group set conflation = true")
	require.NoError(t, err)
	depth("?group=ledger", `"ledger","pending":4,"processing":3,"ready":1,"partitionsPending":2,"partitionsReady":1,"conflation":true,"effectivePending":2,"effectiveReady":1,`+
		`"partitions":[{"partition":"a","pending":2,"processing":1,"ready":1},{"partition":"b","pending":2,"processing":2,"ready":0}]`)
	depth("?group=unknown", `"unknown","pending":5,"processing":0,"ready":5,"partitionsPending":2,"partitionsReady":2,"conflation":false,"effectivePending":5,"effectiveReady":5,`+
		`"partitions":[{"partition":"a","pending":3,"processing":0,"ready":3},{"partition":"b","pending":2,"processing":0,"ready":2}]`)
	// A registered group without a cursor begins where its registration says; one that only pops single partitions
	// has nothing to do with the others.
	_, err = l.db.Pool().Exec(t.Context(), `with g as (select id from waggle.consumer_group where name = 'ledger'), c as (delete from waggle.cursor)
		update waggle.consumer_group set start_mode = 1, registered_at = clock_timestamp(), start_at = clock_timestamp(), conflation = false
		where id = (select id from g)`)
	require.NoError(t, err)
	l.push("bi/lls", "b", 5, 6)
	depth("?group=ledger", `"ledger","pending":1,"processing":0,"ready":1,"partitionsPending":1,"partitionsReady":1,"conflation":false,"effectivePending":1,"effectiveReady":1,`+
		`"partitions":[{"partition":"a","pending":0,"processing":0,"ready":0},{"partition":"b","pending":1,"processing":0,"ready":1}]`)
	_, err = l.db.Pool().Exec(t.Context(), "update waggle.consumer_group set registered_at = null")
	require.NoError(t, err)
	require.EqualValues(t, 0, l.object(http.StatusOK, "GET", "/api/v1/resources/queues/bi/lls/depth?group=ledger", "")["pending"])

	l.ask(http.StatusOK, "POST", "/api/v1/configure", `{"queue":"empty"}`)
	require.Empty(t, l.object(http.StatusOK, "GET", "/api/v1/resources/queues/empty/depth", "")["partitions"])
	for _, target := range []string{"/api/v1/resources/queues/nothing/depth", "/api/v1/resources/queues/%01/depth"} {
		require.Equal(t, "Queue not found", l.object(http.StatusNotFound, "GET", target, "")["error"])
	}
	l.ask(http.StatusNotFound, "GET", "/api/v1/resources/queues/bi/lls/depth", "", "X-Queen-Tenant", stranger.String())
}
