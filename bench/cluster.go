package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Cluster is what is measured; its JSON is the cluster.json of a dev cluster. Postgres may be empty and PIDs 0 when
// they are not known: what needs them is then left out of the report.
type Cluster struct {
	Postgres string   `json:"postgres"`
	Brokers  []Broker `json:"brokers"`
}

// Broker is one broker of the cluster. PID counts only when the process runs on this machine.
type Broker struct {
	Name string `json:"name"`
	HTTP string `json:"http"`
	PID  int    `json:"pid"`
}

// LoadCluster reads a dev cluster's cluster.json.
func LoadCluster(path string) (Cluster, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return Cluster{}, fmt.Errorf("read cluster file: %w", err)
	}
	var c Cluster
	if err := json.Unmarshal(content, &c); err != nil {
		return Cluster{}, fmt.Errorf("read cluster file %s: %w", path, err)
	}
	if len(c.Brokers) == 0 {
		return Cluster{}, fmt.Errorf("cluster file %s names no brokers", path)
	}
	return c, nil
}

// address is what a socket connects to.
func (b Broker) address() (string, error) {
	parsed, err := url.Parse(b.HTTP)
	if err != nil {
		return "", fmt.Errorf("parse broker url: %w", err)
	}
	if parsed.Scheme != "http" || parsed.Host == "" || strings.Trim(parsed.Path, "/") != "" {
		return "", fmt.Errorf("broker url %q: the load generator speaks plain http without a path only", b.HTTP)
	}
	if parsed.Port() == "" {
		return net.JoinHostPort(parsed.Hostname(), "80"), nil
	}
	return parsed.Host, nil
}

// pids are the processes of all brokers, each once; none when one is not known.
func (c Cluster) pids() []int {
	var pids []int
	for _, b := range c.Brokers {
		if b.PID <= 0 {
			return nil
		}
		if !slices.Contains(pids, b.PID) {
			pids = append(pids, b.PID)
		}
	}
	return pids
}

const (
	readyPatience = 60 * time.Second
	stopPatience  = 20 * time.Second
)

// OwnCluster is a dev cluster that this run has started for itself.
type OwnCluster struct {
	Cluster
	process *process
	dir     string
}

// StartCluster runs `PROGRAM dev` with its data in a directory of its own, and waits until all brokers are ready.
func StartCluster(ctx context.Context, program string, brokers int) (*OwnCluster, error) {
	dir, err := os.MkdirTemp("", "waggle-bench-")
	if err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	own := &OwnCluster{dir: dir}
	// PostgreSQL may have to run under another account, which must be able to pass.
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, errors.Join(fmt.Errorf("open directory: %w", err), own.Stop())
	}
	port, err := freePorts(brokers)
	if err != nil {
		return nil, errors.Join(err, own.Stop())
	}
	data := filepath.Join(dir, "data")
	own.process, err = startProcess(exec.Command(program, "dev", "--brokers", strconv.Itoa(brokers), "--data", data,
		"--port", strconv.Itoa(port)), filepath.Join(dir, "dev.log"))
	if err != nil {
		return nil, errors.Join(err, own.Stop())
	}
	own.Cluster, err = own.awaitReady(ctx, filepath.Join(data, "cluster.json"))
	if err != nil {
		return nil, errors.Join(err, own.Stop())
	}
	return own, nil
}

func (o *OwnCluster) awaitReady(ctx context.Context, path string) (Cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, readyPatience)
	defer cancel()
	for {
		if c, err := LoadCluster(path); err == nil {
			return c, nil
		}
		select {
		case <-o.process.done:
			return Cluster{}, fmt.Errorf("dev cluster ended: %w\n%s", o.process.err, o.process.tail())
		case <-ctx.Done():
			return Cluster{}, fmt.Errorf("wait for dev cluster: %w\n%s", ctx.Err(), o.process.tail())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Stop ends the cluster and removes its data.
func (o *OwnCluster) Stop() error {
	var err error
	if o.process != nil {
		err = o.process.stop()
	}
	return errors.Join(err, os.RemoveAll(o.dir))
}

// freePorts finds a run of free ports. Somebody may take one before the brokers do; the start then fails and says so.
func freePorts(n int) (int, error) {
	for range 100 {
		base, err := listenAll(n)
		if err == nil {
			return base, nil
		}
	}
	return 0, fmt.Errorf("find %d free ports in a row: none", n)
}

func listenAll(n int) (base int, err error) {
	first, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	open := []net.Listener{first}
	defer func() {
		for _, l := range open {
			err = errors.Join(err, l.Close())
		}
	}()
	base = first.Addr().(*net.TCPAddr).Port
	for i := 1; i < n; i++ {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(base+i)))
		if err != nil {
			return 0, err
		}
		open = append(open, l)
	}
	return base, nil
}

// process is a child that is waited for.
type process struct {
	command *exec.Cmd
	log     *os.File
	done    chan struct{}
	// err is how the child ended; to be read after done.
	err error
}

// startProcess sends the child's output to a file. The child is not in our process group, so that an interrupt from the
// keyboard reaches it only through stop.
func startProcess(command *exec.Cmd, logPath string) (*process, error) {
	log, err := os.Create(logPath)
	if err != nil {
		return nil, fmt.Errorf("create log: %w", err)
	}
	if command.Stdout == nil {
		command.Stdout = log
	}
	command.Stderr = log
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := command.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", command.Path, err), log.Close())
	}
	p := &process{command: command, log: log, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.err = command.Wait()
		if p.err == nil {
			p.err = errors.New("exit status 0")
		}
	}()
	return p, nil
}

// stop asks the child to end and, when it does not, kills it.
func (p *process) stop() error {
	defer p.log.Close()
	_ = p.command.Process.Signal(syscall.SIGTERM) // fails only when it has ended
	select {
	case <-p.done:
		return nil
	case <-time.After(stopPatience):
	}
	_ = p.command.Process.Kill()
	<-p.done
	return fmt.Errorf("%s did not end within %v and was killed", p.command.Path, stopPatience)
}

// tail is the end of the child's output.
func (p *process) tail() string {
	const most = 2000
	info, err := p.log.Stat()
	if err != nil {
		return ""
	}
	content := make([]byte, min(most, info.Size()))
	if _, err := p.log.ReadAt(content, info.Size()-int64(len(content))); err != nil && !errors.Is(err, io.EOF) {
		return ""
	}
	return strings.TrimSpace(string(content))
}
