package conformance

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	pushedForm = "[{index:int,message_id:v7,transaction_id:string,queueName:string,status:string}]"
	poppedForm = "{success:true,queue:string,partition:string,partitionId:uuid,leaseId:string,consumerGroup:string," +
		"partitionsClaimed:int,messages:[{id:v7,transactionId:string,traceId:string|null,data:any,producerSub:string|null," +
		"createdAt:micros,partitionId:uuid,partition:string,leaseId:string,consumerGroup:string,deliveryAttempt:int}]}"
	ackedForm    = "[{index:int,transactionId:string,success:bool,error:string|null,leaseReleased:bool,dlq:bool,noop:bool}]"
	extendedForm = "{leaseId:string,success:bool,renewed:int,newExpiresAt:micros|null,expiresAt:micros|null,lease_expires_at:micros|null}"
)

func item(queue, partition, transaction string, payload any) object {
	return object{"queue": queue, "partition": partition, "transactionId": transaction, "payload": payload}
}

// push sends one message for each transaction id, whose payload is {"id":<the id>}.
func push(t testing.TB, s *server, queue, partition string, transactions ...string) *answer {
	t.Helper()
	items := list{}
	for _, transaction := range transactions {
		items = append(items, item(queue, partition, transaction, object{"id": transaction}))
	}
	return s.post(t, "/api/v1/push", object{"items": items}).is(t, 201, pushedForm)
}

func popPath(queue, query string) string {
	return "/api/v1/pop/queue/" + url.PathEscape(queue) + "?" + query
}

// pop expects messages, however long a part of the cluster takes to see them.
func pop(t testing.TB, s *server, queue, query string) *answer {
	t.Helper()
	return s.get(t, popPath(queue, "wait=true&timeout=8000&"+query)).is(t, 200, poppedForm)
}

func popsNothing(t testing.TB, s *server, queue, query string) {
	t.Helper()
	s.get(t, popPath(queue, query)).isEmpty(t)
}

// transactions are the ids of what was popped, in order.
func transactions(t testing.TB, popped *answer) (ids []string) {
	t.Helper()
	for i := range popped.items(t, "messages") {
		ids = append(ids, popped.text(t, "messages", i, "transactionId"))
	}
	return ids
}

func ackOf(popped *answer, t testing.TB, i int, status string) object {
	t.Helper()
	return object{
		"transactionId": popped.at(t, "messages", i, "transactionId"), "partitionId": popped.at(t, "messages", i, "partitionId"),
		"leaseId": popped.at(t, "messages", i, "leaseId"), "consumerGroup": popped.at(t, "messages", i, "consumerGroup"),
		"status": status, "error": nil,
	}
}

// ack settles one of the popped messages.
func ack(t testing.TB, s *server, popped *answer, i int, status string) *answer {
	t.Helper()
	return s.post(t, "/api/v1/ack", ackOf(popped, t, i, status)).is(t, 200, ackedForm)
}

// ackAll completes everything that was popped.
func ackAll(t testing.TB, s *server, popped *answer) *answer {
	t.Helper()
	acks := list{}
	for i := range popped.items(t, "messages") {
		acks = append(acks, ackOf(popped, t, i, "completed"))
	}
	got := s.post(t, "/api/v1/ack/batch", object{"acknowledgments": acks, "consumerGroup": popped.at(t, "consumerGroup")})
	got.is(t, 200, ackedForm)
	for i := range acks {
		require.Equal(t, true, got.at(t, i, "success"), "%s", got.body)
	}
	return got
}

func configure(t testing.TB, s *server, queue string, options object) *answer {
	t.Helper()
	return s.post(t, "/api/v1/configure", object{"queue": queue, "options": options}).is(t, 200, "{configured:true,"+
		"queueId:uuid,partitionId:null,queue:string,namespace:string,task:string,storage:string,options:object}")
}

func numbered(prefix string, count int) (names []string) {
	for i := range count {
		names = append(names, fmt.Sprintf("%s-%d", prefix, i))
	}
	return names
}

func TestPushAnswersInOrderOfTheRequest(t *testing.T) {
	t.Parallel()
	s, q := plainServer.get(t), unique("push")
	got := s.post(t, "/api/v1/push", object{"items": list{
		item(q, "a", "1", 1), item(q+".other", "b", "2", nil), item(q, "a", "3", object{"deep": list{1, "two", nil, 2.5, true}}),
		object{"queue": q, "payload": "no partition"},
		object{"queue": q, "partition": nil, "transactionId": nil, "payload": list{}},
	}}).is(t, 201, pushedForm)
	require.Len(t, got.items(t), 5)
	for i, queue := range []string{q, q + ".other", q, q, q} {
		require.Equal(t, i, got.number(t, i, "index"))
		require.Equal(t, queue, got.text(t, i, "queueName"))
		require.Equal(t, "queued", got.text(t, i, "status"))
	}
	for i := 3; i < 5; i++ {
		require.Equal(t, got.text(t, i, "message_id"), got.text(t, i, "transaction_id"), "minted")
	}
	require.Equal(t, "[]", strings.TrimSpace(string(s.post(t, "/api/v1/push", object{"items": list{}}).is(t, 201, "[any]").body)))
	detail := s.get(t, "/api/v1/resources/queues/"+q+".other").is(t, 200, "{id:uuid,name:string,namespace:string,task:string}")
	require.Equal(t, q, detail.text(t, "namespace"))
	require.Equal(t, "other", detail.text(t, "task"))
}

func TestPushRefusesBadInputAsAWhole(t *testing.T) {
	t.Parallel()
	s, q := plainServer.get(t), unique("bad")
	good := `{"queue":"` + q + `","payload":1}`
	for bad, names := range map[string][]string{
		`{"items":[` + good + `,{"queue":"` + q + `"}]}`:                                             {"payload"},
		`{"items":[` + good + `,{"queue":"` + q + `","data":1}]}`:                                    {"payload"},
		`{"items":[` + good + `,{"payload":1}]}`:                                                     {"queue"},
		`{"items":[` + good + `,{"queue":7,"payload":1}]}`:                                           {"queue"},
		`{"items":[` + good + `,{"queue":"` + q + `","partition":7,"payload":1}]}`:                   {"partition"},
		`{"items":[{"queue":"a\u0001b","payload":1}]}`:                                               {"queue"},
		`{"items":[{"queue":"a","partition":"\n","payload":1}]}`:                                     {"partition"},
		`{"items":[{"queue":"a","transactionId":"\t","payload":1}]}`:                                 {"transactionId"},
		`{"items":[{"queue":"a","transactionId":{},"payload":1}]}`:                                   {"transactionId"},
		`{"items":[{"queue":"a","payload":1,"transactionId":"` + strings.Repeat("x", 65536) + `"}]}`: {"transactionId"},
		`{"items":7}`: {"items"}, `{}`: {"items"}, `[]`: nil, `{"items":[`: {"bad body"}, ``: {"bad body"},
		`{"items":[` + good + `]} trailing`: {"bad body"}, "{\"items\":[{\"queue\":\"a\",\"payload\":\"\xff\"}]": nil,
	} {
		s.post(t, "/api/v1/push", bad).refuses(t, 400, names...)
	}
	s.get(t, "/api/v1/resources/queues/"+q).refuses(t, 404, "not found")
}

func TestBodiesAreJSONWhateverTheHeaderSays(t *testing.T) {
	t.Parallel()
	s, q := plainServer.get(t), unique("header")
	for i, contentType := range []string{"", "text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-8"} {
		caller := s.with("Content-Type", contentType)
		if contentType == "" {
			caller = s
		}
		push(t, caller, q, "p", fmt.Sprint(i))
	}
	s = s.with("Content-Type", "application/json")
	require.Equal(t, numbered("", 0), []string(nil))
	require.Len(t, pop(t, s, q, "batch=10&autoAck=true").items(t, "messages"), 4)
	s.delete(t, "/api/v1/resources/queues/"+q).is(t, 200, "{deleted:true,queue:string,existed:true}")
}

func TestNamesMayHoldAnything(t *testing.T) {
	t.Parallel()
	s := plainServer.get(t)
	for _, odd := range []string{`a/b`, `a.b/c d`, `q"uo'te`, `back\slash`, `plus+and%41`, `ünï😀`, `..`, `a?b#c`, `a;b,c=d&e`} {
		q := unique("odd") + odd
		push(t, s, q, odd, odd)
		popped := s.get(t, "/api/v1/pop/queue/"+escape(q)+"/partition/"+escape(odd)+"?consumerGroup="+url.QueryEscape(odd)+"&subscriptionMode=all").
			is(t, 200, poppedForm)
		require.Equal(t, q, popped.text(t, "queue"))
		require.Equal(t, odd, popped.text(t, "partition"))
		require.Equal(t, odd, popped.text(t, "consumerGroup"))
		require.Equal(t, []string{odd}, transactions(t, popped))
		ackAll(t, s, popped)
		s.get(t, "/api/v1/messages/"+popped.text(t, "partitionId")+"/"+escape(odd)).is(t, 200, "{id:v7,transactionId:string}")
		require.Equal(t, q, s.delete(t, "/api/v1/resources/queues/"+escape(q)).is(t, 200, "{deleted:true}").text(t, "queue"))
	}
}

// escape also hides dots, which some HTTP libraries clean away.
func escape(name string) string { return strings.ReplaceAll(url.PathEscape(name), ".", "%2E") }

func TestPopParametersAreTyped(t *testing.T) {
	t.Parallel()
	s, q := plainServer.get(t), unique("typed")
	for _, path := range []string{popPath(q, ""), "/api/v1/pop/queue/" + q + "/partition/p?", "/api/v1/pop?namespace=n&"} {
		for _, bad := range []string{
			"wait=yes", "wait=1", "wait=True", "batch=ten", "batch=1.5", "timeout=x", "partitions=", "autoAck=no", "leaseSeconds=a",
			"conflation=1", "autopilot=x",
		} {
			got := s.get(t, path+bad)
			require.Equal(t, 400, got.status, got.asked)
			require.Contains(t, got.header.Get("Content-Type"), "text/plain", got.asked)
			name, _, _ := strings.Cut(bad, "=")
			require.Contains(t, string(got.body), name, got.asked)
		}
	}
	for _, fine := range []string{"batch=0", "batch=-5", "partitions=0", "partitions=-1", "leaseSeconds=0", "wait=true&timeout=1", "unknown=x", "batch=1000000"} {
		popsNothing(t, s, q, fine)
	}
	s.get(t, "/api/v1/pop").is(t, 400, "{success:false,error:=namespace or task is required,messages:[any]}")
	s.get(t, popPath(q, "conflation=true")).is(t, 400, "{success:false,error:string,messages:[any]}").hasPrefix(t, "conflation requires consumerGroup:")
	s.get(t, popPath(q, "conflation=true&consumerGroup=g&autoAck=true")).is(t, 400, "{success:false,error:string,messages:[any]}").
		hasPrefix(t, "conflation cannot be combined with autoAck")
	require.Equal(t, 405, s.call(t, "HEAD", popPath(q, ""), nil).status)
}

func (a *answer) hasPrefix(t testing.TB, prefix string) {
	t.Helper()
	require.True(t, strings.HasPrefix(a.text(t, "error"), prefix), "%s: %s", a.asked, a.body)
}

func TestPopOfTheUnknown(t *testing.T) {
	t.Parallel()
	s, q := plainServer.get(t), unique("unknown")
	s.get(t, "/api/v1/pop/queue/"+q+"/partition/p").isEmpty(t)
	popsNothing(t, s, q, "")
	s.get(t, "/api/v1/resources/queues/"+q).is(t, 200, "{id:uuid,name:string}")
	s.get(t, "/api/v1/pop?namespace="+unique("nobody")).isEmpty(t)
}

func TestDiscoveryFindsByNamespaceAndTask(t *testing.T) {
	t.Parallel()
	s, n := plainServer.get(t), unique("space")
	push(t, s, n+".a", "p", "1")
	push(t, s, n+".b", "p", "2")
	got := s.get(t, "/api/v1/pop?wait=true&timeout=8000&task=b&namespace="+n).is(t, 200, poppedForm)
	require.Empty(t, got.text(t, "queue"))
	require.Equal(t, []string{"2"}, transactions(t, got))
	got = s.get(t, "/api/v1/pop?wait=true&timeout=8000&autoAck=true&namespace="+n).is(t, 200, poppedForm)
	require.Equal(t, []string{"1"}, transactions(t, got))
	require.Empty(t, got.text(t, "leaseId"))
	require.Empty(t, got.text(t, "messages", 0, "leaseId"))
}

func TestLongPoll(t *testing.T) {
	t.Parallel()
	s, q := plainServer.get(t), unique("wait")
	began := time.Now()
	popsNothing(t, s, q, "wait=true&timeout=700")
	require.GreaterOrEqual(t, time.Since(began), 650*time.Millisecond)
	require.Less(t, time.Since(began), 3*time.Second, "promptly at the deadline")
	parked := make(chan *answer, 1)
	go func() {
		got, err := s.try(t.Context(), "GET", popPath(q, "wait=true&timeout=20000"), nil)
		if err != nil {
			got = &answer{asked: err.Error()}
		}
		parked <- got
	}()
	time.Sleep(300 * time.Millisecond) // let it park
	began = time.Now()
	push(t, s, q, "p", "wakes")
	got := (<-parked).is(t, 200, poppedForm)
	require.Less(t, time.Since(began), 5*time.Second, "a push wakes a parked pop on any broker")
	require.Equal(t, []string{"wakes"}, transactions(t, got))
}

func TestAckBodiesAndStatuses(t *testing.T) {
	t.Parallel()
	s, q := plainServer.get(t), unique("ack")
	for i, status := range []any{nil, "completed", "success", "acked", "ok"} {
		push(t, s, q, "p", fmt.Sprint(i))
		popped := pop(t, s, q, "")
		body := ackOf(popped, t, 0, "")
		body["status"] = status
		require.Equal(t, true, s.post(t, "/api/v1/ack", body).is(t, 200, ackedForm).at(t, 0, "leaseReleased"), "%v", status)
	}
	push(t, s, q, "p", "n")
	for attempt, status := range []string{"retry", "failed", "", "COMPLETED"} {
		popped := pop(t, s, q, "")
		require.Equal(t, []string{"n"}, transactions(t, popped))
		require.Equal(t, attempt+1, popped.number(t, "messages", 0, "deliveryAttempt"), "after %q", status)
		require.Equal(t, true, ack(t, s, popped, 0, status).at(t, 0, "leaseReleased"))
	}
	popped := pop(t, s, q, "")
	require.Equal(t, true, ack(t, s, popped, 0, "dlq").at(t, 0, "dlq"))
	popsNothing(t, s, q, "")

	s.post(t, "/api/v1/ack", "{").refuses(t, 400, "bad body")
	s.post(t, "/api/v1/ack/batch", "nonsense").refuses(t, 400, "bad body")
	require.Empty(t, s.post(t, "/api/v1/ack/batch", object{"acknowledgments": list{}}).is(t, 200, "[any]").items(t))
	got := s.post(t, "/api/v1/ack", object{"transactionId": "x", "partitionId": "no uuid", "status": "completed"}).is(t, 200, ackedForm)
	require.Equal(t, false, got.at(t, 0, "success"))
	require.NotEmpty(t, got.text(t, 0, "error"))
	got = s.post(t, "/api/v1/ack", object{"transactionId": "n", "partitionId": popped.at(t, "partitionId"), "consumerGroup": "nobody"})
	require.Equal(t, "consumer not found", got.is(t, 200, ackedForm).text(t, 0, "error"))
}

func TestSetsOfABatchAreIndependent(t *testing.T) {
	t.Parallel()
	s, q := plainServer.get(t), unique("sets")
	push(t, s, q, "a", "a1", "a2")
	push(t, s, q, "b", "b1")
	popped := pop(t, s, q, "partitions=2")
	require.Len(t, popped.items(t, "messages"), 3)
	acks := list{}
	for i, id := range transactions(t, popped) {
		one := ackOf(popped, t, i, "completed")
		if id == "b1" {
			one["leaseId"] = "00000000-0000-7000-8000-000000000000"
		}
		acks = append(acks, one)
	}
	got := s.post(t, "/api/v1/ack/batch", object{"acknowledgments": acks, "consumerGroup": nil}).is(t, 200, ackedForm)
	for i, id := range transactions(t, popped) {
		require.Equal(t, i, got.number(t, i, "index"))
		require.Equal(t, id, got.text(t, i, "transactionId"))
		if id == "b1" {
			require.Equal(t, "invalid or expired lease", got.text(t, i, "error"))
		} else {
			require.Equal(t, true, got.at(t, i, "success"))
			require.Equal(t, true, got.at(t, i, "leaseReleased"), "repeated on each accepted item of the set")
		}
	}
}

func TestExtendTakesAnyBody(t *testing.T) {
	t.Parallel()
	s, q := plainServer.get(t), unique("extend")
	configure(t, s, q, object{"leaseTime": 5})
	push(t, s, q, "p", "1")
	lease := pop(t, s, q, "").text(t, "leaseId")
	var last string
	for _, body := range []any{nil, "", "{}", "{", "nonsense", `{"seconds":"many"}`, object{"seconds": 200}, object{"seconds": 1}} {
		got := s.post(t, "/api/v1/lease/"+lease+"/extend", body).is(t, 200, extendedForm)
		require.Equal(t, true, got.at(t, "success"), "%v", body)
		require.Equal(t, 1, got.number(t, "renewed"))
		expiry := got.text(t, "newExpiresAt")
		require.Equal(t, expiry, got.text(t, "expiresAt"))
		require.Equal(t, expiry, got.text(t, "lease_expires_at"))
		at, err := time.Parse(time.RFC3339, expiry)
		require.NoError(t, err)
		require.Greater(t, time.Until(at), 50*time.Second, "%v", body)
		require.GreaterOrEqual(t, expiry, last, "an extension never shortens")
		last = expiry
	}
	for _, unknown := range []string{"00000000-0000-7000-8000-000000000000", "nonsense"} {
		got := s.post(t, "/api/v1/lease/"+unknown+"/extend", nil).is(t, 200, extendedForm)
		require.Equal(t, false, got.at(t, "success"))
		require.Nil(t, got.at(t, "newExpiresAt"))
	}
}

func TestAnOversizeBodyIs413(t *testing.T) {
	t.Parallel()
	s := plainServer.get(t)
	huge := `{"items":[{"queue":"` + unique("huge") + `","payload":"` + strings.Repeat("x", 67108864) + `"}]}`
	got, err := s.try(t.Context(), "POST", "/api/v1/push", huge)
	if err != nil {
		return // the broker may hang up on what it does not read
	}
	require.Equal(t, 413, got.status, "%.200s", got.body)
}

func TestDeleteOfAQueue(t *testing.T) {
	t.Parallel()
	s, q := plainServer.get(t), unique("gone")
	push(t, s, q, "p", "1")
	require.Equal(t, q, s.delete(t, "/api/v1/resources/queues/"+q).is(t, 200, "{deleted:true,queue:string,existed:true}").text(t, "queue"))
	s.delete(t, "/api/v1/resources/queues/"+q).is(t, 200, "{deleted:false,queue:string,existed:false,message:string}")
	s.get(t, "/api/v1/resources/queues/"+q).is(t, 404, "{error:=Queue not found}")
	require.Equal(t, "queued", push(t, s, q, "p", "1").text(t, 0, "status"), "nothing is left of the old one")
}

func TestConflation(t *testing.T) {
	t.Parallel()
	s, q := plainServer.get(t), unique("conflate")
	query := "consumerGroup=c&subscriptionMode=all&conflation=true"
	got := s.get(t, popPath(q, query)).is(t, 200, "{messages:[any],conflation:true}")
	require.Empty(t, got.items(t, "messages"))
	push(t, s, q, "a", "a1", "a2", "a3")
	push(t, s, q, "b", "b1", "b2")
	// A pop may come before a partition that has just been made is known to be one of the group's.
	var newest []string
	for began := time.Now(); len(newest) < 2 && time.Since(began) < 10*time.Second; {
		popped := s.get(t, popPath(q, query)).is(t, 200, "{messages:[any],conflation:true}")
		newest = append(newest, transactions(t, popped)...)
		if len(popped.items(t, "messages")) > 0 {
			ackAll(t, s, popped)
		}
	}
	require.ElementsMatch(t, []string{"a3", "b2"}, newest)
	require.Empty(t, s.get(t, popPath(q, query)).is(t, 200, "{messages:[any],conflation:true}").items(t, "messages"))
	push(t, s, q, "a", "a4")
	popped := pop(t, s, q, "consumerGroup=c&conflation=false")
	require.Equal(t, true, popped.at(t, "conflationConflict"), "the stored policy wins")
}
