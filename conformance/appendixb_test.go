package conformance

import (
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestB01Configure(t *testing.T) {
	t.Parallel()
	s, q := plainServer.get(t), unique("b01")
	options := object{
		"leaseTime": 42, "retryLimit": 7, "retryDelay": 1234, "priority": 5, "maxSize": 99, "ttl": 77, "deadLetterQueue": false,
		"dlqAfterMaxRetries": false, "delayedProcessing": 3, "windowBuffer": 4, "retentionEnabled": true, "retentionSeconds": 600,
		"completedRetentionSeconds": 601, "maxWaitTimeSeconds": 602, "encryptionEnabled": true, "minPopWaitTime": 10,
		"dedupWindowSeconds": 60, "retentionSinkHold": "sink.a_b-1", "retentionSinkHoldMaxSeconds": 61,
	}
	same := func(got *answer, want object) {
		for name, value := range want {
			require.EqualValues(t, fmt.Sprint(value), fmt.Sprint(got.at(t, "options", name)), name)
		}
	}
	same(configure(t, s, q, options), options)
	got := s.post(t, "/api/v1/configure", object{"queue": q, "namespace": "n", "task": "t", "leaseTime": 43, "unknown": 1, "options": object{"priority": nil}})
	options["leaseTime"], options["priority"] = 43, 0
	same(got.is(t, 200, "{configured:true}"), options)
	require.Equal(t, "n", got.text(t, "namespace"))
	require.Equal(t, "t", got.text(t, "task"))
	got = s.post(t, "/api/v1/configure", object{"queue": q, "mode": "replace", "options": object{}}).is(t, 200, "{configured:true}")
	same(got, object{
		"leaseTime": 300, "retryLimit": 3, "retryDelay": 1000, "priority": 0, "maxSize": 0, "ttl": 3600,
		"deadLetterQueue": true, "dlqAfterMaxRetries": true, "delayedProcessing": 0, "windowBuffer": 0, "retentionEnabled": false,
		"retentionSeconds": 0, "completedRetentionSeconds": 0, "maxWaitTimeSeconds": 0, "encryptionEnabled": false,
		"minPopWaitTime": 0, "dedupWindowSeconds": 3600, "retentionSinkHold": "", "retentionSinkHoldMaxSeconds": 604800,
	})
	for bad, names := range map[string][]string{
		`{"queue":"x","mode":"other"}`: {"mode"}, `{}`: {"queue"}, `{"queue":7}`: {"queue"}, `{"queue":null}`: {"queue"}, `{`: {"bad body"},
		`{"queue":"x","options":{"leaseTime":"long"}}`: {"leaseTime"}, `{"queue":"x","options":{"retentionEnabled":7}}`: {"retentionEnabled"},
	} {
		s.post(t, "/api/v1/configure", bad).refuses(t, 400, names...)
	}
	for _, bad := range []string{`{"retentionSinkHold":"a b"}`, `{"retentionSinkHoldMaxSeconds":59}`} {
		s.post(t, "/api/v1/configure", `{"queue":"x","options":`+bad+`}`).is(t, 400, "{error:string,invalid:[any]}")
	}
	s.delete(t, "/api/v1/resources/queues/"+q).is(t, 200, "{deleted:true}")
}

func TestB02PushThenPop(t *testing.T) {
	t.Parallel()
	s, q := plainServer.get(t), unique("b02")
	for i := range 20 {
		queue := fmt.Sprintf("%s-%d", q, i)
		pushed := push(t, s, queue, "p", "1")
		popped := s.get(t, popPath(queue, "")).is(t, 200, poppedForm)
		require.Equal(t, pushed.text(t, 0, "message_id"), popped.text(t, "messages", 0, "id"), "at once, on any broker")
	}
}

func TestB03Duplicates(t *testing.T) {
	t.Parallel()
	s, q := plainServer.get(t), unique("b03")
	first := push(t, s, q, "a", "x")
	again := push(t, s, q, "a", "x")
	require.Equal(t, "duplicate", again.text(t, 0, "status"))
	require.Equal(t, first.text(t, 0, "message_id"), again.text(t, 0, "message_id"))
	require.Equal(t, "queued", push(t, s, q, "b", "x").text(t, 0, "status"))

	var (
		together sync.WaitGroup
		answers  [8]*answer
	)
	for i := range answers {
		together.Go(func() {
			answers[i], _ = s.try(t.Context(), "POST", "/api/v1/push", object{"items": list{item(q, "race", "y", i)}})
		})
	}
	together.Wait()
	count, ids := map[string]int{}, map[string]bool{}
	for _, got := range answers {
		got.is(t, 201, pushedForm)
		count[got.text(t, 0, "status")]++
		ids[got.text(t, 0, "message_id")] = true
	}
	require.Equal(t, map[string]int{"queued": 1, "duplicate": 7}, count)
	require.Len(t, ids, 1)

	three := push(t, s, q, "three", "z", "z", "z")
	for i, status := range []string{"queued", "duplicate", "duplicate"} {
		require.Equal(t, status, three.text(t, i, "status"))
		require.Equal(t, three.text(t, 0, "message_id"), three.text(t, i, "message_id"))
	}
	var items list
	for range 100 {
		items = append(items, object{"queue": q, "partition": "many", "payload": 1})
	}
	many := s.post(t, "/api/v1/push", object{"items": items}).is(t, 201, pushedForm)
	last := ""
	for i := range items {
		require.Greater(t, many.text(t, i, "message_id"), last, "ids grow within a partition")
		last = many.text(t, i, "message_id")
	}
	configure(t, s, q, object{"dedupWindowSeconds": 0})
	eventually(t, 10*time.Second, "the window is off everywhere", func() bool {
		id := unique("off")
		push(t, s, q, "off", id)
		return push(t, s, q, "off", id).text(t, 0, "status") == "queued"
	})
}

func TestB04Payloads(t *testing.T) {
	t.Parallel()
	s, q := plainServer.get(t), unique("b04")
	payloads := []string{
		`null`, `{}`, `[]`, `""`, `0`, `false`, `"` + strings.Repeat("ü", 600000) + `"`, `1.50`, `12345678901234567890`, `"\u0000\u001f\ud83d\ude00"`,
	}
	for i, payload := range payloads {
		s.post(t, "/api/v1/push", fmt.Sprintf(`{"items":[{"queue":%q,"partition":"p","transactionId":"%d","payload":%s}]}`, q, i, payload)).is(t, 201, pushedForm)
	}
	popped := pop(t, s, q, "batch=20")
	for i, payload := range payloads {
		require.JSONEq(t, fmt.Sprintf(`{"d":%s}`, payload), fmt.Sprintf(`{"d":%s}`, fieldOf(t, popped, i, "data")))
	}
	var items list
	filler := strings.Repeat("x", 10240)
	for i := range 1000 {
		items = append(items, item(q, "big", fmt.Sprint(i), filler))
	}
	s.post(t, "/api/v1/push", object{"items": items}).is(t, 201, pushedForm)
	received := 0
	for received < 1000 {
		popped = pop(t, s, q, "batch=1000&autoAck=true")
		received += len(popped.items(t, "messages"))
	}
	require.Equal(t, 1000, received)
}

// fieldOf is a field of a popped message as it was written.
func fieldOf(t testing.TB, popped *answer, i int, name string) string {
	t.Helper()
	names, values, err := fields(popped.body)
	require.NoError(t, err)
	for at := range names {
		if names[at] == "messages" {
			var messages []rawJSON
			require.NoError(t, unmarshal(values[at], &messages))
			inner, raw, err := fields(messages[i])
			require.NoError(t, err)
			for j := range inner {
				if inner[j] == name {
					return string(raw[j])
				}
			}
		}
	}
	t.Fatalf("no %s in message %d", name, i)
	return ""
}

func TestB05DelayAndWindow(t *testing.T) {
	t.Parallel()
	s := plainServer.get(t)
	t.Run("delayedProcessing hides what is young", func(t *testing.T) {
		t.Parallel()
		q := unique("b05d")
		configure(t, s, q, object{"delayedProcessing": 2})
		push(t, s, q, "p", "1")
		popsNothing(t, s, q, "")
		began := time.Now()
		require.Len(t, pop(t, s, q, "").items(t, "messages"), 1)
		require.Greater(t, time.Since(began), 1300*time.Millisecond)
	})
	t.Run("windowBuffer waits for quiet", func(t *testing.T) {
		t.Parallel()
		q := unique("b05w")
		configure(t, s, q, object{"windowBuffer": 2})
		for _, id := range []string{"1", "2", "3"} {
			push(t, s, q, "p", id)
		}
		popsNothing(t, s, q, "batch=4")
		require.Equal(t, []string{"1", "2", "3"}, transactions(t, pop(t, s, q, "batch=4")))
	})
}

func TestB06ExpiredLease(t *testing.T) {
	t.Parallel()
	s, q := plainServer.get(t), unique("b06")
	configure(t, s, q, object{"leaseTime": 1})
	push(t, s, q, "p", "1")
	stale := pop(t, s, q, "")
	popsNothing(t, s, q, "")
	again := pop(t, s, q, "leaseSeconds=30")
	require.Equal(t, []string{"1"}, transactions(t, again))
	require.Equal(t, 2, again.number(t, "messages", 0, "deliveryAttempt"))
	require.NotEqual(t, stale.text(t, "leaseId"), again.text(t, "leaseId"))
	require.Equal(t, "invalid or expired lease", ack(t, s, stale, 0, "completed").text(t, 0, "error"))
	ackAll(t, s, again)
}

func TestB07Partitions(t *testing.T) {
	t.Parallel()
	s, q := plainServer.get(t), unique("b07")
	for _, p := range numbered("p", 5) {
		push(t, s, q, p, numbered(p, 5)...)
	}
	group := func(g string) string { return "subscriptionMode=all&consumerGroup=" + g }
	one := pop(t, s, q, group("one")+"&batch=100")
	require.Len(t, one.items(t, "messages"), 5, "one partition unless asked for more")
	require.Equal(t, 1, one.number(t, "partitionsClaimed"))
	ten := pop(t, s, q, group("ten")+"&batch=10&partitions=5")
	require.Len(t, ten.items(t, "messages"), 10)
	all := pop(t, s, q, group("all")+"&batch=100&partitions=0")
	require.Equal(t, 5, all.number(t, "partitionsClaimed"))
	ids := map[string]bool{}
	for i := range all.items(t, "messages") {
		ids[all.text(t, "messages", i, "partitionId")] = true
		require.Equal(t, all.text(t, "leaseId"), all.text(t, "messages", i, "leaseId"))
	}
	require.Len(t, ids, 5)
	require.Equal(t, 5, s.post(t, "/api/v1/lease/"+all.text(t, "leaseId")+"/extend", object{}).is(t, 200, extendedForm).number(t, "renewed"))
	ackAll(t, s, all)
	popsNothing(t, s, q, group("all")+"&partitions=0")
}

func TestB08Groups(t *testing.T) {
	t.Parallel()
	s, q := plainServer.get(t), unique("b08")
	push(t, s, q, "p", "old1", "old2")
	for _, g := range []string{"a", "b"} {
		require.Equal(t, []string{"old1", "old2"}, transactions(t, pop(t, s, q, "subscriptionMode=from_beginning&consumerGroup="+g)))
	}
	fresh := map[string]string{
		"default": "", "new": "subscriptionMode=new", "new-only": "subscriptionMode=new-only", "now": "subscriptionMode=all&subscriptionFrom=now",
		"bad-time": "subscriptionFrom=yesterday",
	}
	for g, query := range fresh {
		popsNothing(t, s, q, query+"&consumerGroup="+g)
	}
	later := time.Now().UTC().Add(500 * time.Millisecond)
	time.Sleep(time.Until(later.Add(500 * time.Millisecond))) // the timestamp has to lie between two pushes
	push(t, s, q, "p", "new1")
	push(t, s, q, "p2", "new2")
	for g, query := range fresh {
		got := pop(t, s, q, "partitions=9&"+query+"&consumerGroup="+g)
		if len(got.items(t, "messages")) == 1 {
			got2 := pop(t, s, q, "consumerGroup="+g)
			require.ElementsMatch(t, []string{"new1", "new2"}, append(transactions(t, got), transactions(t, got2)...), g)
			continue
		}
		require.ElementsMatch(t, []string{"new1", "new2"}, transactions(t, got), g)
	}
	got := pop(t, s, q, "partitions=9&consumerGroup=time&subscriptionFrom="+url.QueryEscape(later.Format(time.RFC3339Nano)))
	require.ElementsMatch(t, []string{"new1", "new2"}, transactions(t, got))
	require.ElementsMatch(t, []string{"old1", "old2", "new1", "new2"}, transactions(t, pop(t, s, q, "partitions=9")), "queue mode sees all")
}

const letterForm = "{messages:[{id:string|int,transactionId:string,partitionId:uuid,queue:string,partition:string,consumerGroup:string," +
	"errorMessage:string|null,retryCount:int,data:any,producerSub:string|null,createdAt:millis,failedAt:millis}]," +
	"pagination:{limit:int,offset:int},total:int}"

func TestB09DeadLetters(t *testing.T) {
	t.Parallel()
	s := plainServer.get(t)
	for _, group := range []string{"", "ledger"} {
		q := unique("b09")
		configure(t, s, q, object{"retryLimit": 1})
		push(t, s, q, "p", "poison", "next")
		query := "batch=1&subscriptionMode=all"
		if group != "" {
			query += "&consumerGroup=" + group
		}
		for failure := range 2 {
			popped := pop(t, s, q, query)
			require.Equal(t, []string{"poison"}, transactions(t, popped))
			nack := ackOf(popped, t, 0, "failed")
			nack["error"] = "card refused"
			got := s.post(t, "/api/v1/ack", nack).is(t, 200, ackedForm)
			require.Equal(t, failure == 1, got.at(t, 0, "dlq"))
		}
		require.Equal(t, []string{"next"}, transactions(t, pop(t, s, q, query)))
		got := s.get(t, "/api/v1/dlq?limit=&partition=p&from=x&to=y&consumerGroup="+group+"&queue="+q).is(t, 200, letterForm)
		require.Equal(t, 1, got.number(t, "total"))
		require.Contains(t, got.text(t, "messages", 0, "errorMessage"), "card refused")
		require.Equal(t, "poison", got.text(t, "messages", 0, "data", "id"))
		require.Equal(t, got.text(t, "messages", 0, "createdAt"), got.text(t, "messages", 0, "failedAt"))
		if group == "" {
			group = "__QUEUE_MODE__"
		}
		require.Equal(t, group, got.text(t, "messages", 0, "consumerGroup"))
		require.Empty(t, s.get(t, "/api/v1/dlq?queue="+q+"&consumerGroup=other").is(t, 200, letterForm).items(t, "messages"))
		require.Empty(t, s.get(t, "/api/v1/dlq?queue="+q+"&offset=1").is(t, 200, letterForm).items(t, "messages"))
	}
}

func TestB11AckSemantics(t *testing.T) {
	t.Parallel()
	s, q := plainServer.get(t), unique("b11")
	push(t, s, q, "p", numbered("m", 8)...)
	popped := pop(t, s, q, "batch=8")
	got := ack(t, s, popped, 3, "completed")
	require.Equal(t, true, got.at(t, 0, "success"))
	require.Equal(t, false, got.at(t, 0, "leaseReleased"))
	got = ack(t, s, popped, 1, "completed")
	require.Equal(t, true, got.at(t, 0, "success"))
	require.Equal(t, true, got.at(t, 0, "noop"), "completed by the ack of a later one")
	got = ack(t, s, popped, 1, "failed")
	require.Equal(t, false, got.at(t, 0, "success"))
	require.Regexp(t, `(?i)committed`, got.text(t, 0, "error"))
	unknown := ackOf(popped, t, 5, "completed")
	unknown["transactionId"] = "never pushed"
	require.Regexp(t, `(?i)unresolv`, s.post(t, "/api/v1/ack", unknown).is(t, 200, ackedForm).text(t, 0, "error"))

	nack, done := ackOf(popped, t, 5, "failed"), ackOf(popped, t, 7, "completed")
	got = s.post(t, "/api/v1/ack/batch", object{"acknowledgments": list{done, nack, ackOf(popped, t, 4, "completed")}}).is(t, 200, ackedForm)
	for i := range 3 {
		require.Equal(t, true, got.at(t, i, "success"))
		require.Equal(t, true, got.at(t, i, "leaseReleased"))
	}
	again := pop(t, s, q, "batch=8")
	require.Equal(t, []string{"m-5", "m-6", "m-7"}, transactions(t, again), "a nack clamps, redelivery is in order")
	require.Equal(t, 2, again.number(t, "messages", 0, "deliveryAttempt"))
	require.Equal(t, "invalid or expired lease", ack(t, s, popped, 6, "completed").text(t, 0, "error"))
	without := ackOf(again, t, 2, "completed")
	delete(without, "leaseId")
	require.Equal(t, true, s.post(t, "/api/v1/ack", without).is(t, 200, ackedForm).at(t, 0, "success"), "no lease id, no check")
	popsNothing(t, s, q, "")
}

func TestB12SeekAndForgottenGroups(t *testing.T) {
	t.Parallel()
	s, q, g := plainServer.get(t), unique("b12"), unique("g")
	push(t, s, q, "p", "1", "2")
	query := "subscriptionMode=all&autoAck=true&consumerGroup=" + g
	consume := func(why string) {
		t.Helper()
		require.Equal(t, []string{"1", "2"}, transactions(t, pop(t, s, q, query)), why)
		popsNothing(t, s, q, query)
	}
	consume("first")
	group := "/api/v1/consumer-groups/" + g
	seekForm := "{success:true,consumerGroup:string,queueName:string,seekToEnd:bool,targetTimestamp:string|null,partitionsUpdated:int}"
	s.post(t, group+"/queues/"+q+"/seek", object{"timestamp": "2001-01-01T00:00:00Z"}).is(t, 200, seekForm)
	consume("after a seek")
	s.post(t, group+"/queues/"+q+"/partitions/p/seek", object{"timestamp": "2001-01-01T00:00:00Z"}).
		is(t, 200, "{success:true,consumerGroup:string,queueName:string,partitionName:string}")
	s.post(t, group+"/queues/"+q+"/partitions/p/seek", nil).is(t, 200, "{success:true}")
	popsNothing(t, s, q, query)
	s.post(t, group+"/queues/"+q+"/seek", object{"timestamp": "2001-01-01T00:00:00Z"}).is(t, 200, seekForm)
	s.post(t, group+"/queues/"+q+"/seek", object{"toEnd": true}).is(t, 200, seekForm)
	popsNothing(t, s, q, query)
	deletedForm := "{success:true,consumerGroup:string,deletedPartitions:int,metadataDeleted:true}"
	s.delete(t, group+"?deleteMetadata=true").is(t, 200, deletedForm)
	consume("after the group was deleted")
	s.delete(t, group+"/queues/"+q+"?deleteMetadata=true").
		is(t, 200, "{success:true,consumerGroup:string,queueName:string,deletedPartitions:int,metadataDeleted:true}")
	consume("after it was deleted for this queue")
	s.delete(t, "/api/v1/consumer-groups/"+unique("nobody")).is(t, 200, "{success:true,consumerGroup:string,deletedPartitions:int,metadataDeleted:bool}")
	s.post(t, group+"/queues/"+q+"/seek", "{}").refuses(t, 400, "Must specify toEnd=true or a timestamp")
	s.post(t, group+"/queues/"+q+"/seek", object{"timestamp": "soon"}).refuses(t, 400, "timestamp")
	missing := s.post(t, group+"/queues/"+unique("nowhere")+"/seek", object{"toEnd": true})
	missing.is(t, 404, "{success:false,error:=Queue not found or has no partitions}")
	require.Equal(t, 0, missing.number(t, "partitionsUpdated"))
	s.post(t, group+"/queues/"+q+"/partitions/nowhere/seek", nil).is(t, 404, "{error:=Partition not found}")
	s.post(t, group+"/subscription", object{"subscriptionTimestamp": "2001-01-01T00:00:00Z"}).
		is(t, 200, "{success:true,consumerGroup:string,newTimestamp:string,rowsUpdated:int}")
	s.post(t, group+"/subscription", "{}").refuses(t, 400, "subscriptionTimestamp")
}

func TestB17Ordering(t *testing.T) {
	t.Parallel()
	s, q := plainServer.get(t), unique("b17")
	const partitions, each = 5, 40
	var pushers sync.WaitGroup
	for p := range partitions {
		pushers.Go(func() {
			for i := range each {
				_, _ = s.try(t.Context(), "POST", "/api/v1/push", object{"items": list{item(q, fmt.Sprint(p), fmt.Sprint(i), i)}})
			}
		})
	}
	var (
		mu      sync.Mutex // guards seen
		seen    = map[string][]string{}
		total   int
		workers sync.WaitGroup
	)
	stop := time.Now().Add(30 * time.Second)
	for range 10 {
		workers.Go(func() {
			for time.Now().Before(stop) {
				mu.Lock()
				finished := total >= partitions*each
				mu.Unlock()
				if finished {
					return
				}
				got, err := s.try(t.Context(), "GET", popPath(q, "batch=7&wait=true&timeout=500"), nil)
				if err != nil || got.status != 200 {
					continue
				}
				acks := list{}
				mu.Lock()
				for i := range got.items(t, "messages") {
					p := got.text(t, "messages", i, "partition")
					seen[p] = append(seen[p], got.text(t, "messages", i, "transactionId"))
					acks = append(acks, ackOf(got, t, i, "completed"))
				}
				total += len(acks)
				mu.Unlock()
				_, _ = s.try(t.Context(), "POST", "/api/v1/ack/batch", object{"acknowledgments": acks})
			}
		})
	}
	pushers.Wait()
	workers.Wait()
	for p := range partitions {
		require.Len(t, seen[fmt.Sprint(p)], each)
		for i, id := range seen[fmt.Sprint(p)] {
			require.Equal(t, fmt.Sprint(i), id, "partition %d", p)
		}
	}
}
