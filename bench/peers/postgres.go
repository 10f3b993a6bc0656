package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// postgres is a private server that all systems on PostgreSQL share, each in a database of its own.
type postgres struct {
	control, data string
	port          int
	pid           int
	as            []string
}

const postgresSettings = "shared_buffers 256MB, max_wal_size 4GB, synchronous_commit and fsync on"

func startPostgres(ctx context.Context, folder string) (*postgres, error) {
	initdb, err := find("initdb")
	if err != nil {
		return nil, err
	}
	p := &postgres{data: filepath.Join(folder, "postgres")}
	if p.control, err = find("pg_ctl"); err != nil {
		return nil, err
	}
	if os.Geteuid() == 0 {
		// PostgreSQL does not run as root.
		if _, err := user.Lookup("postgres"); err != nil {
			return nil, err
		}
		p.as = []string{"setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"}
		if err := os.Chmod(folder, 0o755); err != nil {
			return nil, err
		}
		if err := os.Mkdir(p.data, 0o700); err != nil {
			return nil, err
		}
		if output, err := exec.CommandContext(ctx, "chown", "postgres", p.data).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("chown: %w: %s", err, output)
		}
	}
	if err := p.do(ctx, initdb, "-D", p.data, "-U", "postgres", "--auth=trust", "--no-sync"); err != nil {
		return nil, err
	}
	if p.port, err = freePort(); err != nil {
		return nil, err
	}
	flags := fmt.Sprintf("-p %d -h 127.0.0.1 -k '' -c shared_buffers=256MB -c max_wal_size=4GB -c max_connections=200", p.port)
	if err := p.do(ctx, p.control, "-D", p.data, "-w", "-l", filepath.Join(p.data, "log"), "-o", flags, "start"); err != nil {
		return nil, err
	}
	content, err := os.ReadFile(filepath.Join(p.data, "postmaster.pid"))
	if err != nil {
		return nil, err
	}
	first, _, _ := strings.Cut(string(content), "\n")
	p.pid, err = strconv.Atoi(first)
	return p, err
}

func (p *postgres) do(ctx context.Context, arguments ...string) error {
	arguments = append(append([]string{}, p.as...), arguments...)
	command := exec.CommandContext(ctx, arguments[0], arguments[1:]...)
	command.Dir = "/"
	// pg_ctl start leaves the server with our output: a pipe would wait for its end.
	log, err := os.CreateTemp("", "waggle-peers-log-")
	if err != nil {
		return err
	}
	defer os.Remove(log.Name())
	defer log.Close()
	command.Stdout, command.Stderr = log, log
	if err := command.Run(); err != nil {
		text, _ := os.ReadFile(log.Name())
		return fmt.Errorf("%s: %w: %s", command, err, text)
	}
	return nil
}

func (p *postgres) stop() {
	_ = p.do(context.Background(), p.control, "-D", p.data, "-m", "immediate", "stop")
}

func (p *postgres) url(database string) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s", p.port, database)
}

// database makes one and connects to it.
func (p *postgres) database(ctx context.Context, name string) (*pgxpool.Pool, error) {
	conn, err := pgx.Connect(ctx, p.url("postgres"))
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "create database "+name); err != nil {
		return nil, err
	}
	return pgxpool.New(ctx, p.url(name)+"?pool_max_conns=40")
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}
