package node_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// devCluster is what cluster.json says.
type devCluster struct {
	Postgres string
	Brokers  []struct {
		Name, HTTP, Mesh string
		PID              int
	}
}

// startDev runs `waggle dev` and waits until it says that it is ready.
func startDev(t *testing.T, folder string, flags ...string) *process {
	t.Helper()
	p := startProcess(t, nil, nil, append([]string{"dev", "--data", folder, "--port", "0"}, flags...)...)
	began := time.Now()
	line := p.log.await(t, "ready")
	require.True(t, strings.HasPrefix(line, "ready"), p.log)
	require.Less(t, time.Since(began), 30*time.Second)
	return p
}

func readDev(t *testing.T, folder string) (cluster devCluster) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(folder, "cluster.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(content, &cluster))
	return cluster
}

func stopDev(t *testing.T, p *process, folder string) {
	t.Helper()
	p.signal(syscall.SIGTERM)
	require.Zero(t, p.exitCode(t, 15*time.Second), p.log)
	require.NoFileExists(t, filepath.Join(folder, "cluster.json"))
	require.NoFileExists(t, filepath.Join(folder, "env"))
}

func answers(address string) bool {
	conn, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

func TestDevCluster(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	dev := startDev(t, folder)
	cluster := readDev(t, folder)
	require.Len(t, cluster.Brokers, 3)
	for i, b := range cluster.Brokers {
		require.Equal(t, fmt.Sprintf("broker-%d", i+1), b.Name)
		require.Equal(t, http.StatusOK, call(t, http.MethodGet, b.HTTP+"/health", "").status)
		require.NotEmpty(t, b.Mesh)
	}
	var one int
	require.NoError(t, connectTo(t, cluster.Postgres).QueryRow(t.Context(), "select 1").Scan(&one))
	push := `{"items":[{"queue":"q","payload":"kept"}]}`
	require.Contains(t, call(t, http.MethodPost, cluster.Brokers[0].HTTP+"/api/v1/push", push).body, "queued")

	t.Log("a broker that is killed stays dead")
	require.NoError(t, syscall.Kill(cluster.Brokers[2].PID, syscall.SIGKILL))
	dev.log.await(t, "broker-3 ended")
	require.False(t, answers(cluster.Brokers[2].HTTP))

	t.Log("a cluster that is told to stop stops, and keeps its data")
	stopDev(t, dev, folder)
	for _, b := range cluster.Brokers {
		require.False(t, answers(b.HTTP))
	}

	t.Log("a cluster that is killed leaves no broker behind, and nothing in the way of the next one")
	dev = startDev(t, folder, "--respawn")
	cluster = readDev(t, folder)
	dev.kill()
	for _, b := range cluster.Brokers {
		eventually(t, b.Name+" has ended with its cluster", func() bool { return !answers(b.HTTP) })
	}
	dev = startDev(t, folder, "--respawn")
	cluster = readDev(t, folder)
	require.Contains(t, call(t, http.MethodGet, cluster.Brokers[1].HTTP+"/api/v1/pop/queue/q", "").body, `"data":"kept"`)

	t.Log("with --respawn a broker that is killed comes back under its address")
	victim := cluster.Brokers[1]
	require.NoError(t, syscall.Kill(victim.PID, syscall.SIGKILL))
	eventually(t, "the cluster file names the new process", func() bool {
		now := readDev(t, folder).Brokers[1]
		return now.PID != victim.PID && now.HTTP == victim.HTTP
	})
	require.Equal(t, http.StatusOK, call(t, http.MethodGet, victim.HTTP+"/health", "").status)

	t.Log("two clusters in one folder are one too many")
	second := startProcess(t, nil, nil, "dev", "--data", folder, "--port", "0")
	require.NotZero(t, second.exitCode(t, patience))
	require.Contains(t, second.log.String(), "waggle: ")
	require.FileExists(t, filepath.Join(folder, "cluster.json"), "the second one touched nothing")
	stopDev(t, dev, folder)
}

func TestDevRefusesPortsInUse(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	p := startProcess(t, nil, nil, "dev", "--data", t.TempDir(), "--port", port)
	require.Equal(t, exitAddress, p.exitCode(t, patience), p.log)
	require.Contains(t, p.log.tail(1), "--port "+port)
}
