package conformance

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waggle/pg/pgtest"
)

// What the suite is to judge. Without addresses it starts brokers of this repository.
var (
	urls       = flag.String("urls", os.Getenv("WAGGLE_CONFORMANCE_URLS"), "brokers to judge, with commas between")
	tenantURLs = flag.String("tenant-urls", os.Getenv("WAGGLE_CONFORMANCE_TENANT_URLS"), "brokers with QUEEN_TENANCY_HEADER=true")
	jwtURLs    = flag.String("jwt-urls", os.Getenv("WAGGLE_CONFORMANCE_JWT_URLS"), "brokers with JWT_ENABLED=true, HS256 and -jwt-secret")
	jwtSecret  = flag.String("jwt-secret", "conformance-secret-of-32-bytes-at-least", "the secret that those know")
)

// The three kinds of server that the contract speaks of. Each is started when a test first asks for it.
var (
	plainServer  = &lazyServer{urls: urls}
	tenantServer = &lazyServer{urls: tenantURLs, settings: []string{"QUEEN_TENANCY_HEADER=true", "QUEEN_KV_TRUSTED_PROXY=1"}}
	jwtServer    = &lazyServer{urls: jwtURLs, settings: []string{"JWT_ENABLED=true"}}
)

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	run := &runTB{}
	if code == 0 && wholeSuite() {
		for _, missing := range visited.missing() {
			run.Errorf("no test of the suite has called %s", missing)
		}
	}
	lifetime.end()
	if code == 0 && (run.failed || lifetime.failed) {
		code = 1
	}
	os.Exit(code)
}

func wholeSuite() bool {
	for _, name := range []string{"test.run", "test.skip", "test.list", "test.fuzz"} {
		if f := flag.Lookup(name); f != nil && f.Value.String() != "" {
			return false
		}
	}
	return *urls == "" || *tenantURLs != "" && *jwtURLs != ""
}

type lazyServer struct {
	urls     *string
	settings []string
	once     sync.Once
	ready    *server
	err      error
}

// get returns the server. Where addresses were given for another kind only, the test is left out and says so.
func (l *lazyServer) get(t *testing.T) *server {
	t.Helper()
	l.once.Do(func() {
		switch {
		case *l.urls != "":
			l.ready = newServer(strings.Split(*l.urls, ","))
		case *urls == "":
			l.ready, l.err = startBrokers(l.settings)
		}
	})
	require.NoError(t, l.err)
	if l.ready == nil {
		t.Skip("no addresses of such brokers were given: see the flags -urls, -tenant-urls and -jwt-urls")
	}
	return l.ready
}

// runTB lets what needs a test live as long as the whole run.
type runTB struct {
	testing.TB
	mu       sync.Mutex // guards what follows
	cleanups []func()
	failed   bool
}

var lifetime = &runTB{}

func (r *runTB) Helper()                  {}
func (r *runTB) Name() string             { return "Conformance" }
func (r *runTB) Context() context.Context { return context.Background() }
func (r *runTB) Failed() bool             { return r.failed }
func (r *runTB) Logf(f string, a ...any)  { fmt.Fprintf(os.Stderr, f+"\n", a...) }
func (r *runTB) FailNow()                 { r.failed = true; panic("the conformance suite cannot go on") }

func (r *runTB) Fatalf(f string, a ...any) {
	r.Errorf(f, a...)
	r.FailNow()
}

func (r *runTB) Errorf(f string, a ...any) {
	r.Logf(f, a...)
	r.failed = true
}

func (r *runTB) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

func (r *runTB) end() {
	for i := len(r.cleanups) - 1; i >= 0; i-- {
		r.cleanups[i]()
	}
}

// program builds waggle once for all clusters.
var program = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "waggle-conformance-")
	if err != nil {
		return "", fmt.Errorf("make folder for the program: %w", err)
	}
	lifetime.Cleanup(func() { _ = os.RemoveAll(folder) })
	path := filepath.Join(folder, "waggle")
	if said, err := exec.Command("go", "build", "-buildvcs=false", "-o", path, "waggle").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the program: %w: %s", err, said)
	}
	return path, nil
})

// startBrokers runs three brokers on one database. They have default settings but for what Appendix B asks of retention.
func startBrokers(settings []string) (*server, error) {
	path, err := program()
	if err != nil {
		return nil, err
	}
	database := pgtest.New(lifetime, pgtest.AllowDeadlocks())
	var addresses []string
	for i := range 3 {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a port: %w", err)
		}
		address := listener.Addr().String()
		_ = listener.Close()
		log, err := os.CreateTemp("", "waggle-conformance-*.log")
		if err != nil {
			return nil, fmt.Errorf("make log: %w", err)
		}
		command := exec.Command(path, "serve", "--end-with-stdin")
		command.Stdout, command.Stderr = log, log
		command.Env = append([]string{
			"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "WAGGLE_NAME=" + fmt.Sprintf("conformance-%d", i+1),
			"WAGGLE_DATABASE_URL=" + database.URL, "WAGGLE_LISTEN=" + address, "WAGGLE_MESH_LISTEN=127.0.0.1:0",
			"WAGGLE_DRAIN_DELAY=0s", "RETENTION_INTERVAL=2000", "JWT_SECRET=" + *jwtSecret,
		}, settings...)
		stdin, err := command.StdinPipe()
		if err != nil {
			return nil, fmt.Errorf("hold stdin: %w", err)
		}
		if err := command.Start(); err != nil {
			return nil, fmt.Errorf("start waggle: %w", err)
		}
		lifetime.Cleanup(func() { stopBroker(command, stdin.Close, log) })
		addresses = append(addresses, "http://"+address)
	}
	for _, address := range addresses {
		if err := awaitHealthy(address); err != nil {
			return nil, err
		}
	}
	return newServer(addresses), nil
}

func stopBroker(command *exec.Cmd, closeStdin func() error, log *os.File) {
	_ = command.Process.Signal(syscall.SIGTERM)
	_ = command.Wait()
	_ = closeStdin()
	if text, err := os.ReadFile(log.Name()); err == nil && strings.Contains(string(text), "panic") {
		lifetime.Errorf("a broker panicked:\n%s", text)
	}
	_ = log.Close()
	_ = os.Remove(log.Name())
}

func awaitHealthy(address string) error {
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) { // between two questions
		response, err := http.Get(address + "/health")
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s did not become healthy: %w", address, err)
		}
	}
}
