package pg_test

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"

	"waggle/pg"
	"waggle/pg/pgtest"
	"waggle/pg/schema"
)

// pooler lends a backend to a client for one transaction at a time: the one that was given back last, or each in turn.
type pooler struct {
	listener net.Listener
	running  sync.WaitGroup
	inTurn   bool
	free     chan struct{} // one token for each idle backend

	mu      sync.Mutex // guards all below
	idle    []*pgconn.HijackedConn
	clients []net.Conn
}

func (p *pooler) take() *pgconn.HijackedConn {
	<-p.free
	p.mu.Lock()
	defer p.mu.Unlock()
	at := len(p.idle) - 1
	if p.inTurn {
		at = 0
	}
	backend := p.idle[at]
	p.idle = slices.Delete(p.idle, at, at+1)
	return backend
}

func (p *pooler) give(backend *pgconn.HijackedConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, backend)
	p.free <- struct{}{}
}

func startPooler(t *testing.T, server string, backends int, inTurn bool) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &pooler{listener: listener, inTurn: inTurn, free: make(chan struct{}, backends)}
	var opened []net.Conn
	for range backends {
		conn, err := pgconn.Connect(t.Context(), server)
		require.NoError(t, err)
		hijacked, err := conn.Hijack()
		require.NoError(t, err)
		opened = append(opened, hijacked.Conn)
		p.give(hijacked)
	}
	p.running.Go(p.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		p.mu.Lock()
		for _, conn := range append(opened, p.clients...) {
			_ = conn.Close()
		}
		p.mu.Unlock()
		p.running.Wait()
	})
	target, err := url.Parse(server)
	require.NoError(t, err)
	target.Host = listener.Addr().String()
	return target.String()
}

func (p *pooler) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		p.clients = append(p.clients, conn)
		p.mu.Unlock()
		p.running.Go(func() {
			defer conn.Close()
			p.serve(pgproto3.NewBackend(conn, conn))
		})
	}
}

// serve speaks for the server until the client has said hello, and then lends it a backend per transaction.
func (p *pooler) serve(client *pgproto3.Backend) {
	if _, err := client.ReceiveStartupMessage(); err != nil {
		return
	}
	client.Send(&pgproto3.AuthenticationOk{})
	client.Send(&pgproto3.ParameterStatus{Name: "client_encoding", Value: "UTF8"})
	client.Send(&pgproto3.ParameterStatus{Name: "standard_conforming_strings", Value: "on"})
	client.Send(&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{0, 0, 0, 1}})
	client.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	var backend *pgconn.HijackedConn
	for client.Flush() == nil {
		message, err := client.Receive()
		if err != nil {
			break
		}
		if _, ends := message.(*pgproto3.Terminate); ends {
			break
		}
		if backend == nil {
			backend = p.take()
		}
		backend.Frontend.Send(message)
		_, query := message.(*pgproto3.Query)
		_, sync := message.(*pgproto3.Sync)
		if !query && !sync {
			continue
		}
		status, err := relay(backend.Frontend, client)
		if err != nil {
			return
		}
		if status == 'I' {
			p.give(backend)
			backend = nil
		}
	}
	if backend != nil {
		backend.Frontend.Send(&pgproto3.Query{String: "rollback"})
		if _, err := relay(backend.Frontend, nil); err == nil {
			p.give(backend)
		}
	}
}

// relay passes answers on until the backend is ready again, and says in which state of a transaction.
func relay(server *pgproto3.Frontend, client *pgproto3.Backend) (status byte, err error) {
	if err := server.Flush(); err != nil {
		return 0, err
	}
	for {
		message, err := server.Receive()
		if err != nil {
			return 0, err
		}
		if client != nil {
			client.Send(message)
		}
		if ready, is := message.(*pgproto3.ReadyForQuery); is {
			return ready.TxStatus, nil
		}
	}
}

func TestSessionRefusesATransactionPooler(t *testing.T) {
	t.Parallel()
	for _, inTurn := range []bool{false, true} {
		for _, backends := range []int{2, 3, 4} {
			t.Run(fmt.Sprintf("%d backends, in turn %t", backends, inTurn), func(t *testing.T) {
				t.Parallel()
				server := pgtest.New(t).URL
				pooled := startPooler(t, server, backends, inTurn)
				conn, err := pgx.Connect(t.Context(), pooled)
				require.NoError(t, err, "the pooler works")
				require.NoError(t, conn.Close(context.Background()))

				_, err = pg.DialLeader(t.Context(), pg.LeaderConfig{URL: pooled, Lease: lease})
				var refused *schema.PoolerError
				require.ErrorAs(t, err, &refused)
				require.True(t, refused.UnfitToLead())

				require.Zero(t, countLocks(t, server), "nothing was left on its backends")
			})
		}
	}
}

// countLocks counts the advisory locks that are held in a database.
func countLocks(t *testing.T, url string) (locks int) {
	t.Helper()
	direct, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer direct.Close(context.Background())
	require.NoError(t, direct.QueryRow(t.Context(), "select count(*) from pg_locks where locktype = 'advisory' and "+
		"database = (select oid from pg_database where datname = current_database())").Scan(&locks))
	return locks
}

func TestApplyRefusesATransactionPoolerIfThereIsSomethingToApply(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t, pgtest.Empty())
	pooled := startPooler(t, database.URL, 2, false)
	_, err := schema.Apply(t.Context(), pooled, schema.Options{Build: "test"})
	var refused *schema.PoolerError
	require.ErrorAs(t, err, &refused)
	require.Zero(t, countLocks(t, database.URL), "nothing was left on its backends")

	database.Migrate(t)
	_, err = schema.Apply(t.Context(), pooled, schema.Options{Build: "test"})
	require.NoError(t, err)
}
