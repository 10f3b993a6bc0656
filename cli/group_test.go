package cli

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// noting is a fake that notes method and path of each request and gives one answer to all.
func noting(t *testing.T, body string) (f *fake, asked *[]string) {
	t.Helper()
	f = newFake(t)
	asked = &[]string{}
	f.answer = func(w http.ResponseWriter, r *http.Request, sent []byte) bool {
		*asked = append(*asked, r.Method+" "+r.URL.RequestURI()+" "+string(sent))
		_, _ = io.WriteString(w, body)
		return true
	}
	return f, asked
}

func TestGroupCommands(t *testing.T) {
	t.Parallel()
	f, asked := noting(t, `[{"name":"g","queueName":"bills","members":3,"partitionsWithLag":1,"totalLag":7,"maxTimeLag":61,"state":"Stable","subscriptionMode":"new","subscriptionTimestamp":null},`+
		`{"name":"h","queueName":"other","members":1,"state":"Dead","subscriptionMode":""}]`)
	got := run(t, "", "group", "list", "bills", "--url", f.URL)
	requireCode(t, ExitDone, got)
	require.Contains(t, got.stdout, "GROUP  QUEUE  STATE   PARTITIONS  BEHIND  LAG  WAITING  MODE\ng      bills  Stable  3           1       7    1m1s     new\n")
	require.NotContains(t, got.stdout, "other")
	require.Equal(t, []string{"GET /api/v1/consumer-groups "}, *asked)

	f, asked = noting(t, `[{"consumer_group":"g","queue_name":"bills","partition_name":"p","offset_lag":7,"time_lag_seconds":90}]`)
	got = run(t, "", "group", "lagging", "--min-lag", "90s", "--url", f.URL)
	require.Contains(t, got.stdout, "g      bills  p          7    1m30s")
	require.Equal(t, []string{"GET /api/v1/consumer-groups/lagging?minLagSeconds=90 "}, *asked)

	f, asked = noting(t, `{"bills":{"conflation":false,"partitions":[{"partition":"p","totalConsumed":5,"offsetLag":2,"timeLagSeconds":3,"leaseActive":true}]}}`)
	got = run(t, "", "group", "describe", "a/b", "--url", f.URL)
	require.Contains(t, got.stdout, "bills  p          5         2    3s       true")
	require.Equal(t, []string{"GET /api/v1/consumer-groups/a%2Fb "}, *asked)
	f, _ = noting(t, `{}`)
	got = run(t, "", "group", "describe", "nobody", "--url", f.URL)
	requireCode(t, ExitFailed, got)
	require.Contains(t, got.stderr, `there is no group "nobody"`)

	f, asked = noting(t, `{"success":true,"consumerGroup":"g","deletedPartitions":3,"metadataDeleted":true}`)
	got = run(t, "", "group", "delete", "g", "--url", f.URL)
	require.Equal(t, "deleted g in 3 partitions\n", got.stdout)
	run(t, "", "group", "delete", "g", "--queue", "bills", "--keep-registration", "--url", f.URL)
	require.Equal(t, []string{
		"DELETE /api/v1/consumer-groups/g?deleteMetadata=true ", "DELETE /api/v1/consumer-groups/g/queues/bills?deleteMetadata=false ",
	}, *asked)
}

func TestSeekCommand(t *testing.T) {
	t.Parallel()
	f, asked := noting(t, `{"success":true,"partitionsUpdated":4}`)
	for _, to := range []string{"end", "beginning", "2031-04-05T08:07:08+02:00"} {
		got := run(t, "", "seek", "bills", "--to", to, "--url", f.URL)
		requireCode(t, ExitDone, got)
		require.Equal(t, "moved __QUEUE_MODE__ on bills in 4 partitions\n", got.stdout)
	}
	path := "POST /api/v1/consumer-groups/__QUEUE_MODE__/queues/bills/seek "
	require.Equal(t, []string{
		path + `{"toEnd":true}`, path + `{"timestamp":"1970-01-01T00:00:00.000000Z"}`, path + `{"timestamp":"2031-04-05T06:07:08.000000Z"}`,
	}, *asked)
	f, asked = noting(t, `{"success":true,"partitionName":"p","updated":true}`)
	got := run(t, "", "seek", "bills", "--group", "g", "--partition", "p", "--to", "now", "--url", f.URL)
	require.Equal(t, "moved g on bills in 1 partitions\n", got.stdout)
	require.Equal(t, []string{`POST /api/v1/consumer-groups/g/queues/bills/partitions/p/seek {"toEnd":true}`}, *asked)
	for _, to := range []string{"yesterday", "-2h", ""} {
		got := run(t, "", "seek", "bills", "--to", to, "--url", f.URL)
		requireCode(t, ExitUsage, got)
		require.Contains(t, got.stderr, "--to")
	}
	requireCode(t, ExitUsage, run(t, "", "seek", "bills", "--url", f.URL))
	now := time.Date(2031, 4, 5, 6, 0, 0, 0, time.UTC)
	at, err := seekTarget("2h", now)
	require.NoError(t, err)
	require.Equal(t, now.Add(-2*time.Hour), *at)
}

func TestReplayAndDeleteDeadLetters(t *testing.T) {
	t.Parallel()
	f, asked := noting(t, `{"success":true,"result":"moved","queue":"bills","partition":"p","dlqId":"7","replayedAs":{"message_id":"m"}}`)
	got := run(t, "", "dlq", "replay", "7", "8", "--queue", "again", "--url", f.URL)
	requireCode(t, ExitDone, got)
	require.Contains(t, got.stdout, "7 moved to bills/p as m\n")
	require.Equal(t, []string{`POST /api/v1/dlq/7/replay {"queue":"again"}`, `POST /api/v1/dlq/8/replay {"queue":"again"}`}, *asked)

	f = answering(t, http.StatusNotFound, `{"success":false,"result":"gone","dlqId":"9","error":"Message not found"}`)
	got = run(t, "", "dlq", "replay", "9", "--url", f.URL)
	requireCode(t, ExitFailed, got)
	require.Contains(t, got.stderr, "9 was not replayed: ")
	require.Contains(t, got.stderr, "Message not found")

	f, asked = noting(t, `{"success":true,"deleted":3}`)
	got = run(t, "", "dlq", "delete", "bills", "--group", "g", "--url", f.URL)
	require.Equal(t, "deleted 3 dead letters of bills\n", got.stdout)
	require.Equal(t, []string{"DELETE /api/v1/dlq?consumerGroup=g&queue=bills "}, *asked)
}
