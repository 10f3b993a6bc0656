package cli

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMeshMembersCommand(t *testing.T) {
	t.Parallel()
	f, asked := noting(t, `{"self":"b1","members":[{"name":"b1","startId":"1","self":true,"address":"10.0.0.1:6633","state":"alive","registered":true,`+
		`"version":"0.1.0","frames":{"min":1,"max":2},"keys":{"source":"database","fingerprint":"aa","ring":3,"confirmed":true},"hint":""},`+
		`{"name":"b2","address":"10.0.0.2:6633","state":"unheard","registered":true,"version":"0.1.0","frames":{"min":1,"max":2},`+
		`"keys":{"source":"off","fingerprint":"","ring":0,"confirmed":false},"hint":"not encrypted"}]}`)
	got := run(t, "", "mesh", "members", "--url", f.URL)
	requireCode(t, ExitDone, got)
	require.Equal(t, "as b1 sees them\n"+
		"NAME  ADDRESS        STATE    VERSION  FRAMES  KEYS         CONFIRMED  HINT\n"+
		"b1    10.0.0.1:6633  alive    0.1.0    1-2     database:aa  ring 3     -\n"+
		"b2    10.0.0.2:6633  unheard  0.1.0    1-2     off          no         not encrypted\n", got.stdout)
	require.Equal(t, []string{"GET /api/v1/cluster/mesh/members "}, *asked)
	for _, flags := range []string{"--json", "--output=json"} {
		got = run(t, "", "mesh", "members", "--url", f.URL, flags)
		require.Contains(t, got.stdout, `"state": "unheard"`)
	}
}

func TestMeshKeysCommand(t *testing.T) {
	t.Parallel()
	f, asked := noting(t, `{"ring":4,"keys":[{"fingerprint":"aa","primary":true},{"fingerprint":"bb","primary":false}],`+
		`"rotation":{"step":"use","requestedBy":"b1","requestedAt":"2030-01-02T03:04:05Z","stepSince":"2030-01-02T03:04:05Z",`+
		`"waitingFor":[{"name":"b2","startId":"2","reason":"its build is old"}]},"lastRotated":null,`+
		`"brokers":[{"name":"b1","source":"database","fingerprint":"aa","ring":4,"confirmed":true},`+
		`{"name":"b2","source":"database","fingerprint":"bb","ring":3,"confirmed":false}]}`)
	got := run(t, "", "mesh", "keys", "--url", f.URL)
	requireCode(t, ExitDone, got)
	require.Equal(t, "ring 4 in the database\nFINGERPRINT  USE\naa           encrypts and decrypts\nbb           decrypts\n\n"+
		"BROKER  KEYS         CONFIRMED\nb1      database:aa  ring 4\nb2      database:bb  no, ring 3\n\n"+
		"rotation: step 2 of 3, use: every broker encrypts with the new key, asked for by b1 at 2030-01-02T03:04:05Z\n"+
		"waiting for b2: its build is old\n", got.stdout)
	require.Equal(t, []string{"GET /api/v1/cluster/mesh/keys "}, *asked)
}

func TestMeshPingCommand(t *testing.T) {
	t.Parallel()
	f, asked := noting(t, `{"from":"b1","peers":[{"name":"b2","address":"10.0.0.2:6633","state":"alive","milliseconds":0.256,"error":""}]}`)
	got := run(t, "", "mesh", "ping", "b 2", "--url", f.URL)
	requireCode(t, ExitDone, got)
	require.Equal(t, "FROM  TO  ADDRESS        STATE  MS    ERROR\nb1    b2  10.0.0.2:6633  alive  0.26  -\n", got.stdout)
	require.Equal(t, []string{"GET /api/v1/cluster/mesh/ping?name=b+2 "}, *asked)

	f, _ = noting(t, `{"from":"b1","peers":[{"name":"b2","address":"10.0.0.2:6633","state":"suspect","milliseconds":null,"error":"no answer"}]}`)
	got = run(t, "", "mesh", "ping", "--url", f.URL)
	requireCode(t, ExitFailed, got)
	require.Contains(t, got.stdout, "no answer")
}

// rotating is a fake whose rotation goes on with each look.
func rotating(t *testing.T, looks ...string) *fake {
	t.Helper()
	f := newFake(t)
	f.answer = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		if r.Method == http.MethodPost {
			require.Equal(t, "/api/v1/cluster/mesh/keys/rotate", r.URL.Path)
			w.WriteHeader(http.StatusAccepted)
			_, _ = io.WriteString(w, `{"started":true}`)
			return true
		}
		rotation := "null"
		if step, reason, waiting := strings.Cut(looks[0], " "); step != "" {
			rotation = `{"step":"` + step + `","waitingFor":[]}`
			if waiting {
				rotation = `{"step":"` + step + `","waitingFor":[{"name":"b2","reason":"` + reason + `"}]}`
			}
		}
		if len(looks) > 1 {
			looks = looks[1:]
		}
		_, _ = io.WriteString(w, `{"ring":7,"keys":[{"fingerprint":"aa","primary":true}],"rotation":`+rotation+`,"brokers":[]}`)
		return true
	}
	return f
}

func TestMeshRotateKeyCommand(t *testing.T) {
	t.Parallel()
	three := stepText("install") + "\n" + stepText("use") + "\n" + stepText("remove") + "\n"
	const done = "done: every broker uses ring 7, key aa\n"
	for name, row := range map[string]struct {
		looks []string
		says  string
	}{
		"step by step": {[]string{"requested", "install", "use", "use", "remove", ""}, "rotation begun\n" + three + done},
		"with somebody to wait for": {
			[]string{"requested b2 is old", "requested b2 is old", "requested", "install", "use b2 is slow", "use b2 is slow", "remove", ""},
			"rotation begun\n  waiting for b2: b2 is old\n" + stepText("install") + "\n" + stepText("use") + "\n  waiting for b2: b2 is slow\n" +
				stepText("remove") + "\n" + done,
		},
		"with steps that nobody saw": {[]string{"use", ""}, "rotation begun\n" + three + done},
		"over at once":               {[]string{""}, "rotation begun\n" + three + done},
	} {
		got := run(t, "", "mesh", "rotate-key", "--url", rotating(t, row.looks...).URL)
		requireCode(t, ExitDone, got)
		require.Equal(t, row.says, got.stdout, name)
	}

	got := run(t, "", "mesh", "rotate-key", "--url", rotating(t, "use", "").URL, "--json")
	requireCode(t, ExitDone, got)
	require.Equal(t, byte('{'), got.stdout[0], "nothing but JSON")

	got = run(t, "", "mesh", "rotate-key", "--url", rotating(t, "use b2 is old").URL, "--timeout", "1ms")
	requireCode(t, ExitRefused, got)
	require.Contains(t, got.stderr, "waiting for b2: b2 is old")

	got = run(t, "", "mesh", "rotate-key", "--url", rotating(t, "use b2 is old").URL, "--no-wait")
	requireCode(t, ExitDone, got)
	require.Equal(t, "rotation begun\n`waggle mesh keys` shows how far it is\n", got.stdout)

	f := newFake(t)
	f.answer = func(w http.ResponseWriter, _ *http.Request, _ []byte) bool {
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, `{"error":"b2: its keys come from a file (--mesh-key-file)","code":"rotation_refused"}`)
		return true
	}
	got = run(t, "", "mesh", "rotate-key", "--url", f.URL)
	requireCode(t, ExitRefused, got)
	require.Contains(t, got.stderr, "its keys come from a file")
}
