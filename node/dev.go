package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"waggle/pg"
	"waggle/pg/local"
)

// DevConfig describes a dev cluster.
type DevConfig struct {
	Brokers int
	// Dir holds the data of PostgreSQL, the brokers' logs and cluster.json.
	Dir string
	// Port is that of the first broker; the others follow. 0 lets the kernel choose all of them.
	Port    int
	Respawn bool
	// Program is the waggle executable; Environ is what the brokers inherit.
	Program string
	Environ []string
	// Say gets one line for each thing that a person at the terminal wants to know.
	Say    io.Writer
	Logger *zap.Logger
}

const (
	devReadyPatience = 30 * time.Second
	devStopPatience  = 10 * time.Second
	clusterFile      = "cluster.json"
	// envFile is for the shell: the variables that commands of the command line read.
	envFile = "env"
)

// Dev is a private PostgreSQL and some brokers as processes of their own.
type Dev struct {
	config   DevConfig
	postgres *local.Server
	db       *pg.DB
	brokers  []*brokerProcess
	exits    chan exit
}

type exit struct {
	broker *brokerProcess
	cause  string
}

// clusterInfo is cluster.json.
type clusterInfo struct {
	Postgres string          `json:"postgres"`
	Brokers  []clusterBroker `json:"brokers"`
}

type clusterBroker struct {
	Name string `json:"name"`
	HTTP string `json:"http"`
	Mesh string `json:"mesh"`
	PID  int    `json:"pid"`
}

// RunDev starts the cluster, says when it is ready, and stops brokers first and PostgreSQL last when the context ends.
// A broker that dies is left dead, unless Respawn is set; without PostgreSQL everything ends.
func RunDev(ctx context.Context, config DevConfig) (err error) {
	d := &Dev{config: config, exits: make(chan exit, config.Brokers)}
	if d.config.Dir, err = filepath.Abs(config.Dir); err != nil {
		return fmt.Errorf("find data folder: %w", err)
	}
	if err := os.MkdirAll(d.config.Dir, 0o755); err != nil {
		return fmt.Errorf("make data folder: %w", err)
	}
	// Asked before anything is started: a mistyped port should not cost the making of a database.
	if _, err := devPorts(config.Port, config.Brokers); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.stop()) }()
	if err := d.start(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	return d.watch(ctx)
}

func (d *Dev) start(ctx context.Context) (err error) {
	started := time.Now()
	d.postgres, err = local.Start(ctx, local.Options{Dir: filepath.Join(d.config.Dir, "postgres"), Logger: d.config.Logger})
	if err != nil {
		return &DatabaseError{err}
	}
	// Only now the folder is ours: another cluster that runs in it keeps its file.
	if err := d.removeFile(); err != nil {
		return err
	}
	if d.db, err = pg.Open(ctx, pg.Config{URL: d.postgres.URL(), ApplicationName: "waggle dev", MaxConns: 4, FlushConns: 1}); err != nil {
		return &DatabaseError{err}
	}
	ports, err := devPorts(d.config.Port, d.config.Brokers)
	if err != nil {
		return err
	}
	for i, port := range ports {
		b := &brokerProcess{
			name: "broker-" + strconv.Itoa(i+1), port: port, log: filepath.Join(d.config.Dir, fmt.Sprintf("broker-%d.log", i+1)),
		}
		d.brokers = append(d.brokers, b)
		if err := d.launch(b); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, devReadyPatience)
	defer cancel()
	for _, b := range d.brokers {
		if err := d.awaitHealthy(ctx, b); err != nil {
			return err
		}
	}
	if err := d.writeFile(ctx); err != nil {
		return err
	}
	d.say("ready in %.1f s: brokers %s to %s, PostgreSQL on port %d, logs and cluster.json in %s, Ctrl-C stops",
		time.Since(started).Seconds(), d.brokers[0].url(), d.brokers[len(d.brokers)-1].url(), d.postgres.Port(), d.config.Dir)
	return nil
}

// devPorts takes what is asked for and refuses ports in use before anything else has been started.
func devPorts(first, count int) ([]int, error) {
	ports := make([]int, count)
	for i := range ports {
		port := 0
		if first != 0 {
			port = first + i
		}
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			return nil, &AddressError{Flag: "port", Address: strconv.Itoa(port), Cause: errors.New("address already in use")}
		}
		// Kept open until all are chosen, so that the kernel does not give the same one twice.
		defer listener.Close()
		ports[i] = listener.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}

func (d *Dev) launch(b *brokerProcess) error {
	environ := append(
		append([]string(nil), d.config.Environ...),
		"WAGGLE_NAME="+b.name,
		"WAGGLE_LISTEN=127.0.0.1:"+strconv.Itoa(b.port),
		"WAGGLE_DATABASE_URL="+d.postgres.URL(),
		"WAGGLE_DIRECT_URL="+d.postgres.URL(),
		"WAGGLE_MESH_LISTEN=127.0.0.1:0",
	)
	if os.Getenv("WAGGLE_DRAIN_DELAY") == "" {
		environ = append(environ, "WAGGLE_DRAIN_DELAY=0s")
	}
	return b.start(d.config.Program, environ, func(cause string) { d.exits <- exit{b, cause} })
}

// awaitHealthy waits for /health, or for the end of the process, whose log then says why.
func (d *Dev) awaitHealthy(ctx context.Context, b *brokerProcess) error {
	client := &http.Client{Timeout: 2 * time.Second}
	defer client.CloseIdleConnections()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, b.url()+"/health", nil)
		if err != nil {
			return err
		}
		if response, err := client.Do(request); err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case e := <-d.exits:
			return fmt.Errorf("%s ended before it was ready (%s), its log %s ends with: %s", e.broker.name, e.cause, e.broker.log, e.broker.lastLine())
		case <-ctx.Done():
			return fmt.Errorf("%s was not ready in time, see %s", b.name, b.log)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// watch reports what ends, and starts it again if asked to.
func (d *Dev) watch(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-d.postgres.Done():
			return &DatabaseError{fmt.Errorf("PostgreSQL ended: %w", d.postgres.Wait())}
		case e := <-d.exits:
			if !d.config.Respawn {
				d.say("%s ended (%s) and stays dead; --respawn would start it again", e.broker.name, e.cause)
				continue
			}
			d.say("%s ended (%s), starting it again", e.broker.name, e.cause)
			if err := d.respawn(ctx, e.broker); err != nil && ctx.Err() == nil {
				d.say("%s did not come back: %v", e.broker.name, err)
			}
		}
	}
}

func (d *Dev) respawn(ctx context.Context, b *brokerProcess) error {
	// A broker that dies at once must not be started in a tight loop.
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(200 * time.Millisecond):
	}
	if err := d.launch(b); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, devReadyPatience)
	defer cancel()
	if err := d.awaitHealthy(ctx, b); err != nil {
		return err
	}
	return d.writeFile(ctx)
}

func (d *Dev) stop() error {
	if d.postgres == nil {
		return nil
	}
	began := time.Now()
	errs := []error{d.removeFile()}
	for _, b := range d.brokers {
		b.interrupt()
	}
	ctx, cancel := context.WithTimeout(context.Background(), devStopPatience)
	defer cancel()
	for _, b := range d.brokers {
		b.await(ctx)
	}
	if d.db != nil {
		d.db.Close()
	}
	errs = append(errs, d.postgres.Stop(ctx))
	d.say("stopped in %.1f s, data stay in %s", time.Since(began).Seconds(), d.config.Dir)
	return errors.Join(errs...)
}

// writeFile says where everything is, once all of it answers.
func (d *Dev) writeFile(ctx context.Context) error {
	rows, err := d.db.LiveBrokers(ctx)
	if err != nil {
		return fmt.Errorf("read registry: %w", err)
	}
	meshes := map[string]string{}
	for _, r := range rows {
		// Rows come by name and start id, and start ids rise: the newest start wins.
		meshes[r.Name] = r.Mesh
	}
	info := clusterInfo{Postgres: d.postgres.URL()}
	for _, b := range d.brokers {
		info.Brokers = append(info.Brokers, clusterBroker{Name: b.name, HTTP: b.url(), Mesh: meshes[b.name], PID: b.pid()})
	}
	content, err := json.MarshalIndent(info, "", "  ")
	if err != nil {
		return err
	}
	urls := make([]string, len(d.brokers))
	for i, b := range d.brokers {
		urls[i] = b.url()
	}
	variables := fmt.Sprintf("export WAGGLE_DATABASE_URL='%s'\nexport WAGGLE_URL='%s'\n", info.Postgres, strings.Join(urls, ","))
	// Whoever waits for the cluster waits for the last one.
	return errors.Join(d.replaceFile(envFile, []byte(variables)), d.replaceFile(clusterFile, append(content, '\n')))
}

func (d *Dev) replaceFile(name string, content []byte) error {
	path := filepath.Join(d.config.Dir, name)
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

func (d *Dev) removeFile() error {
	for _, name := range []string{clusterFile, envFile} {
		if err := os.Remove(filepath.Join(d.config.Dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove old %s: %w", name, err)
		}
	}
	return nil
}

func (d *Dev) say(format string, args ...any) {
	fmt.Fprintf(d.config.Say, format+"\n", args...)
}
