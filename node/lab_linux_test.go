package node_test

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waggle/client"
	"waggle/pg/pgtest"
)

// The lab is a network that can be broken: each broker has a network namespace of its own, as a machine of its own would,
// and all hang on one bridge, on which PostgreSQL and the clients are, too. The bridge is in a namespace that the test process
// was started in, so nothing of this machine's network is seen or changed, and all of it is gone when the process is.
//
//	clients, PostgreSQL 10.77.0.1 --- bridge --+-- 10.77.0.11 broker-1
//	                                           +-- 10.77.0.12 broker-2
//	                                           +-- ...

const (
	bridgeAddress = "10.77.0.1"
	networkBits   = "/16"
	meshPort      = "6633"

	// wantLab is set by whoever wants these tests: they need root, and minutes.
	wantLab = "WAGGLE_TEST_NET"
	// inLab is set for the process that is inside.
	inLab = "WAGGLE_TEST_NET_INSIDE"
)

// enterLab returns true in the process that has a network to break. Otherwise it runs the calling test once more in such a
// process, or says why not.
func enterLab(t *testing.T) bool {
	t.Helper()
	switch {
	case os.Getenv(inLab) != "":
		return true
	case os.Getenv(wantLab) == "":
		t.Skip("LEFT OUT: brokers in network namespaces; `make test-net` runs them, as root on Linux")
	}
	runtime.LockOSThread() // the other process is to end with this one, which means with this thread
	defer runtime.UnlockOSThread()
	inside := exec.Command("/proc/self/exe", append(os.Args[1:], "-test.run=^"+t.Name()+"$", "-test.v")...)
	inside.Env = append(os.Environ(), inLab+"=1")
	inside.Stdout, inside.Stderr = os.Stdout, os.Stderr
	inside.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := inside.Start(); err != nil {
		t.Fatalf("cannot make a network namespace, which takes root on Linux and a container that may (CAP_NET_ADMIN, CAP_SYS_ADMIN): %v", err)
	}
	if err := inside.Wait(); err != nil {
		t.Errorf("in the network namespace: %v", err)
	}
	return false
}

// tool runs a program of the system, in the network namespace of the calling thread.
func tool(t testing.TB, name string, arguments ...string) {
	t.Helper()
	output, err := exec.Command(name, arguments...).CombinedOutput()
	require.NoError(t, err, "%s %s: %s", name, strings.Join(arguments, " "), output)
}

func ip(t testing.TB, arguments string) {
	t.Helper()
	tool(t, "ip", strings.Fields(arguments)...)
}

// buildBridge is done once a process.
func buildBridge(t testing.TB) {
	t.Helper()
	ip(t, "link set lo up")
	ip(t, "link add bridge type bridge")
	ip(t, "addr add "+bridgeAddress+networkBits+" dev bridge")
	ip(t, "link set bridge up")
}

// lab is some brokers on the bridge, and a database.
type lab struct {
	hosts    []*host
	database *pgtest.Database
	// databasePort is where PostgreSQL listens.
	databasePort string
}

// host is a broker and the namespace around it.
type host struct {
	*member
	number int
	// mesh is the address that other brokers reach it at; clients keep to another, which stays.
	mesh string
	work chan func()
}

// laidOut starts a server that brokers can reach over the bridge.
func laidOut(t *testing.T) *pgtest.Server {
	t.Helper()
	server := pgtest.NewServer(t, map[string]string{
		"listen_addresses": "127.0.0.1," + bridgeAddress, "max_connections": "300",
	})
	conn := connectTo(t, server.SuperURL())
	var rules string
	require.NoError(t, conn.QueryRow(t.Context(), "show hba_file").Scan(&rules))
	// The server may know its folder by a descriptor only.
	rules = strings.Replace(rules, "/proc/self/", fmt.Sprintf("/proc/%d/", server.PID()), 1)
	file, err := os.OpenFile(rules, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = file.WriteString("host all all 10.77.0.0" + networkBits + " scram-sha-256\n")
	require.NoError(t, err)
	require.NoError(t, file.Close())
	_, err = conn.Exec(t.Context(), "select pg_reload_conf()")
	require.NoError(t, err)
	return server
}

// startLab starts brokers with a database of their own and waits until each sees all.
func startLab(t *testing.T, server *pgtest.Server, count int, settings ...string) *lab {
	t.Helper()
	l := &lab{database: pgtest.New(t, pgtest.On(server))}
	address, err := url.Parse(l.database.URL)
	require.NoError(t, err)
	l.databasePort = address.Port()
	address.Host = bridgeAddress + ":" + l.databasePort
	for n := 1; n <= count; n++ {
		h := newHost(t, n)
		h.member = newMember(t, fmt.Sprintf("broker-%d", n), address.String(), append([]string{
			"WAGGLE_LISTEN=:6632", "WAGGLE_MESH_LISTEN=:" + meshPort,
		}, settings...)...)
		h.url = "http://" + h.mesh + ":6632"
		l.hosts = append(l.hosts, h)
	}
	for _, h := range l.hosts {
		h.start(t)
	}
	for _, h := range l.hosts {
		h.awaitListening(t)
	}
	l.awaitWhole(t, patience)
	return l
}

// newHost makes a namespace and a cable to the bridge. A namespace belongs to a thread: what is to happen in it happens on
// that thread, and what is started there stays in it.
func newHost(t testing.TB, number int) *host {
	t.Helper()
	h := &host{number: number, mesh: fmt.Sprintf("10.77.0.%d", 10+number), work: make(chan func())}
	entered := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := syscall.Unshare(syscall.CLONE_NEWNET)
		entered <- err
		for err == nil {
			work, more := <-h.work
			if !more {
				return
			}
			work()
		}
	}()
	require.NoError(t, <-entered, "make network namespace")
	t.Cleanup(func() { close(h.work) })
	var thread int
	h.inside(t, func() { thread = syscall.Gettid() })
	cable := "cable" + strconv.Itoa(number)
	ip(t, fmt.Sprintf("link add %s type veth peer name eth0 netns %d", cable, thread))
	t.Cleanup(func() { ip(t, "link del "+cable) })
	ip(t, "link set "+cable+" master bridge up")
	h.inside(t, func() {
		ip(t, "link set lo up")
		ip(t, "addr add "+h.mesh+networkBits+" dev eth0")
		ip(t, "link set eth0 up")
	})
	return h
}

// inside does something in the host's namespace and waits for it.
func (h *host) inside(t testing.TB, work func()) {
	t.Helper()
	done := make(chan struct{})
	h.work <- func() {
		defer close(done) // also when work fails the test, which ends its goroutine
		work()
	}
	<-done
	if t.Failed() {
		t.FailNow()
	}
}

func (h *host) start(t testing.TB) {
	t.Helper()
	h.inside(t, func() { h.launch(t) })
}

// move gives the host another address for other brokers, at the broker's next start.
func (h *host) move(t testing.TB) {
	t.Helper()
	h.mesh = fmt.Sprintf("10.77.1.%d", 10+h.number)
	h.inside(t, func() { ip(t, "addr add "+h.mesh+networkBits+" dev eth0") })
	h.environ = append(h.environ, "WAGGLE_MESH_LISTEN="+h.mesh+":"+meshPort)
}

// lose makes the host lose packets of a chain (INPUT, OUTPUT) that a rule of iptables describes, without a word to anybody.
func (h *host) lose(t testing.TB, chain, rule string) {
	t.Helper()
	h.inside(t, func() { tool(t, "iptables", strings.Fields("-w -A "+chain+" "+rule+" -j DROP")...) })
}

// deafen makes the host lose what other brokers send it, as far as the rule says.
func (l *lab) deafen(t testing.TB, h *host, rule string) {
	t.Helper()
	for _, peer := range l.hosts {
		if peer != h {
			h.lose(t, "INPUT", "-s "+peer.mesh+" "+rule)
		}
	}
}

// heal lets every packet through again.
func (l *lab) heal(t testing.TB) {
	t.Helper()
	for _, h := range l.hosts {
		h.inside(t, func() { tool(t, "iptables", "-w", "-F") })
	}
}

// cluster is what this package's other tests know.
func (l *lab) cluster() cluster {
	c := make(cluster, len(l.hosts))
	for i, h := range l.hosts {
		c[i] = h.member
	}
	return c
}

// view asks one broker, which may be stopped or gone.
func (h *host) view(t testing.TB) (client.Cluster, error) {
	t.Helper()
	asked, err := client.New(client.Config{URLs: []string{h.url}, Timeout: 2 * time.Second})
	require.NoError(t, err)
	defer asked.Close()
	return asked.Cluster(t.Context())
}

// stateOf is what one broker says of a run of another; empty when it does not list it.
func (h *host) stateOf(t testing.TB, startID string) string {
	t.Helper()
	view, err := h.view(t)
	if err != nil {
		return ""
	}
	for _, m := range view.Members {
		if m.StartID == startID {
			return m.State
		}
	}
	return ""
}

// startID is the run of the broker that answers now.
func (h *host) startID(t testing.TB) string {
	t.Helper()
	view, err := h.view(t)
	require.NoError(t, err)
	for _, m := range view.Members {
		if m.Name == h.name && m.State == "alive" {
			return m.StartID
		}
	}
	t.Fatalf("%s does not list itself: %+v", h.name, view)
	return ""
}

// isWhole says whether the broker lists every broker as alive, each name once, and no other as anything but gone.
func (h *host) isWhole(t testing.TB, count int) bool {
	t.Helper()
	view, err := h.view(t)
	if err != nil || view.Registered != count {
		return false
	}
	alive := map[string]bool{}
	for _, m := range view.Members {
		switch {
		case m.State == "suspect", m.State == "alive" && alive[m.Name]:
			return false
		case m.State == "alive":
			alive[m.Name] = true
		}
	}
	return len(alive) == count
}

// awaitWhole returns how long it took until every broker had all in its view, and was heard by all.
func (l *lab) awaitWhole(t testing.TB, limit time.Duration) time.Duration {
	t.Helper()
	began := time.Now()
	for _, h := range l.hosts {
		within(t, began, limit, h.name+" has a whole view", func() bool {
			return h.isWhole(t, len(l.hosts)) && h.metric(t, "waggle_mesh_unheard") == 0
		})
	}
	return time.Since(began)
}

// within asks again until the answer is yes, and returns how long after a moment that was.
func within(t testing.TB, since time.Time, limit time.Duration, what string, holds func() bool) time.Duration {
	t.Helper()
	for !holds() {
		require.Less(t, time.Since(since), limit, "waited in vain until: %s", what)
		time.Sleep(20 * time.Millisecond) // between two questions
	}
	return time.Since(since)
}
