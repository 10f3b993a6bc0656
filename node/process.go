package node

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
)

// brokerProcess is one broker of a dev cluster.
type brokerProcess struct {
	name string
	port int
	log  string

	mu      sync.Mutex // guards what follows
	command *exec.Cmd
	done    chan struct{}
	stdin   io.Closer
}

func (b *brokerProcess) url() string { return "http://127.0.0.1:" + strconv.Itoa(b.port) }

// start runs `PROGRAM serve`. The process ends with ours, whatever ends ours: it watches its standard input, which
// closes then. It is in a group of its own, so that a Ctrl-C at the terminal reaches only us.
func (b *brokerProcess) start(program string, environ []string, ended func(cause string)) error {
	logFile, err := os.OpenFile(b.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("open log of %s: %w", b.name, err)
	}
	defer logFile.Close()
	command := exec.Command(program, "serve", "--end-with-stdin")
	command.Env = environ
	command.Stdout, command.Stderr = logFile, logFile
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := command.StdinPipe()
	if err != nil {
		return fmt.Errorf("connect to %s: %w", b.name, err)
	}
	if err := command.Start(); err != nil {
		return fmt.Errorf("start %s: %w", b.name, err)
	}
	done := make(chan struct{})
	b.mu.Lock()
	b.command, b.done, b.stdin = command, done, stdin
	b.mu.Unlock()
	go func() {
		_ = command.Wait() // the state says it all
		close(done)
		ended(command.ProcessState.String())
	}()
	return nil
}

func (b *brokerProcess) pid() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.command == nil || b.command.Process == nil {
		return 0
	}
	return b.command.Process.Pid
}

func (b *brokerProcess) interrupt() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.command != nil && b.command.Process != nil {
		_ = b.command.Process.Signal(syscall.SIGTERM)
	}
}

// await waits for the end, and brings it about when the context is over.
func (b *brokerProcess) await(ctx context.Context) {
	b.mu.Lock()
	command, done, stdin := b.command, b.done, b.stdin
	b.mu.Unlock()
	if command == nil {
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
		_ = command.Process.Kill()
		<-done
	}
	_ = stdin.Close()
}

// lastLine is what the log ends with.
func (b *brokerProcess) lastLine() string {
	content, err := os.ReadFile(b.log)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(content), []byte("\n"))
	return string(lines[len(lines)-1])
}
