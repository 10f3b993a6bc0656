package node_test

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"

	"waggle/pg/pgtest"
)

// The exit codes that operators rely on.
const (
	exitFailed   = 1
	exitUsage    = 2
	exitGate     = 3
	exitDatabase = 5
	exitAddress  = 6
)

const password = "geheim-7t3q"

// requireRefusal runs a broker that cannot run, and requires that it says so: in the given number of lines, each of them
// telling what is wrong and what to do, without a stack and without the password.
func requireRefusal(t *testing.T, code, lines int, says []string, environ []string, arguments ...string) {
	t.Helper()
	p := startProcess(t, environ, nil, append([]string{"serve"}, arguments...)...)
	require.Equal(t, code, p.exitCode(t, patience), p.log)
	said := p.log.String()
	for _, unwanted := range []string{password, "goroutine", "panic", ".go:", "stacktrace"} {
		require.NotContains(t, said, unwanted)
	}
	var last []string
	for line := range strings.Lines(said) {
		if text, found := strings.CutPrefix(line, "waggle: "); found {
			last = append(last, text)
		}
	}
	require.Len(t, last, lines, said)
	for _, words := range says {
		require.Contains(t, strings.Join(last, ""), words)
	}
	if lines == 1 {
		require.True(t, strings.HasSuffix(said, last[0]), "it is the last thing said")
	}
}

func TestABrokerThatCannotStartSaysWhy(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t)
	free := func() []string {
		return []string{"--listen", freeAddress(t), "--mesh-listen", "127.0.0.1:0", "--start-patience", "400ms"}
	}
	on := func(databaseURL string) []string { return append(free(), "--database-url", databaseURL) }
	wrong := func(change func(*url.URL)) string {
		u, err := url.Parse(database.URL)
		require.NoError(t, err)
		change(u)
		return u.String()
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	usedAddress := taken.Addr().String()

	readOnly := pgtest.New(t)
	_, err = connectTo(t, readOnly.SuperURL).Exec(t.Context(),
		fmt.Sprintf("alter database %q set default_transaction_read_only = on", readOnly.Name))
	require.NoError(t, err)

	for name, row := range map[string]struct {
		code, lines int
		says        []string
		environ     []string
		arguments   []string
	}{
		"no database named": {exitUsage, 1, []string{"--database-url", "WAGGLE_DATABASE_URL"}, nil, free()},
		"no server there": {
			exitDatabase, 1,
			[]string{"127.0.0.1:1", "connection refused", "--database-url", "400ms"},
			nil,
			on("postgres://u:" + password + "@127.0.0.1:1/x"),
		},
		"no such host": {
			exitDatabase, 1, []string{"nowhere.invalid", "--database-url"}, nil, on("postgres://u:" + password + "@nowhere.invalid/x"),
		},
		"wrong password": {
			exitDatabase, 1,
			[]string{"password", pgtest.Role, "--database-url"},
			nil,
			on(wrong(func(u *url.URL) { u.User = url.UserPassword(pgtest.Role, password) })),
		},
		"no such database": {
			exitDatabase, 1,
			[]string{`database "nowhere" does not exist`, "create it"},
			nil,
			on(wrong(func(u *url.URL) { u.Path = "/nowhere" })),
		},
		"server too old": {exitDatabase, 1, []string{"14.11", "15 or newer", "upgrade"}, nil, on(oldServer(t))},
		"database read-only": {
			exitDatabase, 1, []string{"read-only", "default_transaction_read_only"}, nil, on(readOnly.URL),
		},
		"port in use": {
			exitAddress, 1,
			[]string{"--listen", usedAddress, "in use", "another"},
			nil,
			[]string{"--listen", usedAddress, "--mesh-listen", "127.0.0.1:0", "--database-url", database.URL},
		},
		"mesh port in use": {
			exitAddress, 1,
			[]string{"--mesh-listen", usedAddress, "in use", "another"},
			nil,
			[]string{"--listen", freeAddress(t), "--mesh-listen", usedAddress, "--database-url", database.URL},
		},
		"bad settings": {
			exitUsage, 1,
			[]string{
				"--listen (WAGGLE_LISTEN)", `"nonsense"`, "--lanes (WAGGLE_LANES)", `"99"`, "--name (WAGGLE_NAME)", `"a b"`,
				"--drain-delay (WAGGLE_DRAIN_DELAY)", "--database-url (WAGGLE_DATABASE_URL)",
			},
			[]string{"WAGGLE_LANES=99"},
			[]string{
				"--listen", "nonsense", "--name", "a b", "--drain-delay=-1s",
				"--database-url", "postgres://u:" + password + "@127.0.0.1:99999/x",
			},
		},
		"values that cannot be read": {
			exitUsage, 4,
			[]string{
				"--pool (WAGGLE_POOL)", `"many"`, "--drain-delay (WAGGLE_DRAIN_DELAY)", `"soon"`, "--mesh (WAGGLE_MESH)", `"maybe"`,
				"WAGGLE_LANES", `"two"`,
			},
			[]string{"WAGGLE_LANES=two"},
			[]string{"--pool", "many", "--drain-delay=soon", "--mesh", "maybe", "--database-url", database.URL},
		},
		"a flag that does not exist": {exitUsage, 1, []string{"--lanse", "--lanes"}, nil, append(on(database.URL), "--lanse", "3")},
		"an unknown variable, checked": {
			exitUsage, 1,
			[]string{"WAGGLE_LISTN", "WAGGLE_LISTEN"},
			[]string{"WAGGLE_LISTN=:1"},
			append(on(database.URL), "--check"),
		},
		"a database without tables that must not be made": {
			exitGate, 1, []string{"WG0022"}, []string{"WAGGLE_APPLY_SCHEMA=false"}, on(pgtest.New(t, pgtest.Empty()).URL),
		},
		"a tenant header from anybody": {exitUsage, 1, []string{"QUEEN_KV_TRUSTED_PROXY"}, []string{"QUEEN_TENANCY_HEADER=true"}, on(database.URL)},
	} {
		t.Run(name, func(t *testing.T) {
			requireRefusal(t, row.code, row.lines, row.says, row.environ, row.arguments...)
		})
	}

	t.Run("good settings, checked", func(t *testing.T) {
		p := startProcess(t, nil, nil, append([]string{"serve"}, append(on(database.URL), "--check")...)...)
		require.Zero(t, p.exitCode(t, patience), p.log)
	})
	t.Run("an unknown variable is no reason not to start", func(t *testing.T) {
		m := newMember(t, "newer", database.URL, "WAGGLE_LISTN=:1", "WAGGLE_PORT=tcp://10.0.0.1:80")
		m.launch(t)
		m.awaitListening(t)
		require.Contains(t, m.log.await(t, "unknown variable"), "WAGGLE_LISTEN")
		require.NotContains(t, m.log.String(), "WAGGLE_PORT")
	})
	t.Run("a secret in a file that is not there", func(t *testing.T) {
		missing := filepath.Join(t.TempDir(), "url")
		requireRefusal(t, exitUsage, 1, []string{"WAGGLE_DATABASE_URL_FILE", missing}, []string{"WAGGLE_DATABASE_URL_FILE=" + missing})
	})
	t.Run("a secret in a file", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "url")
		require.NoError(t, os.WriteFile(file, []byte(database.URL+"\n"), 0o600))
		m := newMember(t, "discreet", "", "WAGGLE_DATABASE_URL_FILE="+file)
		m.launch(t)
		m.awaitListening(t)
	})
}

func TestABrokerWaitsForADatabaseThatIsLate(t *testing.T) {
	t.Parallel()
	server := pgtest.NewServer(t, nil)
	database := pgtest.New(t, pgtest.On(server)).URL
	server.Stop()
	m := newMember(t, "patient", database)
	m.launch(t)
	m.log.await(t, "waiting for the database")
	server.Start()
	m.awaitListening(t)
}

// A database whose floor is above what this build knows takes nothing more from it, and the broker leaves.
func TestAFloorAboveTheBuildEndsIt(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t)
	c := startCluster(t, database.URL, 2, "WAGGLE_DRAIN_DELAY=1500ms")
	super := connectTo(t, database.SuperURL)
	pusher := newClient(t, c[0].url)
	push := `{"items":[{"queue":"q","partition":"%s","payload":1}]}`
	require.Contains(t, call(t, http.MethodPost, c[0].url+"/api/v1/push", fmt.Sprintf(push, "p")).body, "queued")
	pusher.Close()

	stored := func() (rows string) {
		require.NoError(t, super.QueryRow(t.Context(), `select concat_ws(' ',
			(select count(*) from waggle.segment), (select count(*) from waggle.partition), (select count(*) from waggle.queue),
			(select count(*) from waggle.consumer_group), (select count(*) from waggle.cursor))`).Scan(&rows))
		return rows
	}
	_, err := super.Exec(t.Context(), "update waggle.gate set system_floor = 999")
	require.NoError(t, err)
	before := stored()

	require.NotContains(t, call(t, http.MethodPost, c[0].url+"/api/v1/push", fmt.Sprintf(push, "p")).body, "queued")
	require.NotContains(t, call(t, http.MethodPost, c[0].url+"/api/v1/push", fmt.Sprintf(push, "new")).body, "queued")
	require.NotEqual(t, http.StatusOK, call(t, http.MethodGet, c[1].url+"/api/v1/pop/queue/q", "").status)
	eventually(t, "the broker that met the fence says why it is not ready", func() bool {
		got := call(t, http.MethodGet, c[0].url+"/health/ready", "")
		return got.status == http.StatusServiceUnavailable && strings.Contains(got.body, "WG0023")
	})
	for _, m := range c {
		require.Equal(t, exitGate, m.exitCode(t, patience))
		require.Contains(t, m.log.tail(1), "waggle: ")
		require.Contains(t, m.log.tail(1), "WG0023")
	}
	require.Equal(t, before, stored(), "nothing was written")

	requireRefusal(t, exitGate, 1, []string{"WG0023", "newer"}, nil,
		"--database-url", database.URL, "--listen", freeAddress(t), "--mesh-listen", "127.0.0.1:0")
	require.Equal(t, before, stored(), "nothing was written")
}

// oldServer speaks just enough of PostgreSQL's protocol to be asked for its version, and returns its address.
func oldServer(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go answerAsOld(conn)
		}
	}()
	return "postgres://u:" + password + "@" + listener.Addr().String() + "/x?sslmode=disable"
}

func answerAsOld(conn net.Conn) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	backend := pgproto3.NewBackend(conn, conn)
	if _, err := backend.ReceiveStartupMessage(); err != nil {
		return
	}
	backend.Send(&pgproto3.AuthenticationOk{})
	backend.Send(&pgproto3.ParameterStatus{Name: "server_version", Value: "14.11"})
	backend.Send(&pgproto3.ParameterStatus{Name: "client_encoding", Value: "UTF8"})
	backend.Send(&pgproto3.ParameterStatus{Name: "standard_conforming_strings", Value: "on"})
	backend.Send(&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{0, 0, 0, 1}})
	backend.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	var question string
	var formats []int16
	for backend.Flush() == nil {
		message, err := backend.Receive()
		if err != nil {
			return
		}
		switch m := message.(type) {
		case *pgproto3.Parse:
			question = m.Query
			backend.Send(&pgproto3.ParseComplete{})
		case *pgproto3.Bind:
			formats = append([]int16(nil), m.ResultFormatCodes...)
			backend.Send(&pgproto3.BindComplete{})
		case *pgproto3.Describe:
			if m.ObjectType == 'S' {
				backend.Send(&pgproto3.ParameterDescription{})
			}
			backend.Send(oldColumns(question, formats))
		case *pgproto3.Execute:
			backend.Send(oldRow(question, formats))
			backend.Send(&pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")})
		case *pgproto3.Sync:
			backend.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		case *pgproto3.Terminate:
			return
		}
	}
}

// oldColumns are those of the question for the version: a number, a text and two booleans; any other question has two
// texts for an answer.
func oldColumns(question string, formats []int16) *pgproto3.RowDescription {
	types := []uint32{25, 25}
	if strings.Contains(question, "server_version_num") {
		types = []uint32{23, 25, 16, 16}
	}
	description := &pgproto3.RowDescription{}
	for i, oid := range types {
		field := pgproto3.FieldDescription{Name: []byte("c"), DataTypeOID: oid, DataTypeSize: -1, TypeModifier: -1}
		if len(formats) > 0 {
			field.Format = formats[min(i, len(formats)-1)]
		}
		description.Fields = append(description.Fields, field)
	}
	return description
}

func oldRow(question string, formats []int16) *pgproto3.DataRow {
	if !strings.Contains(question, "server_version_num") {
		return &pgproto3.DataRow{Values: [][]byte{[]byte("1"), []byte("00000001")}}
	}
	row := &pgproto3.DataRow{Values: [][]byte{[]byte("140011"), []byte("14.11"), []byte("f"), []byte("f")}}
	for i := range row.Values {
		if len(formats) == 0 || formats[min(i, len(formats)-1)] == 0 {
			continue
		}
		switch i {
		case 0:
			row.Values[i] = binary.BigEndian.AppendUint32(nil, 140011)
		case 2, 3:
			row.Values[i] = []byte{0}
		}
	}
	return row
}
