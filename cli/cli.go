package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
)

// CLI is the command tree.
type CLI struct {
	Serve   ServeCmd   `cmd:"" help:"Run one broker."`
	Dev     DevCmd     `cmd:"" help:"Run a cluster on a private PostgreSQL, to try and to develop."`
	Push    PushCmd    `cmd:"" help:"Store JSON lines of a file or of standard input in a queue."`
	Pop     PopCmd     `cmd:"" help:"Take messages from a queue and write them as JSON lines."`
	Ack     AckCmd     `cmd:"" help:"Acknowledge messages, by id or as lines that pop wrote."`
	Queue   QueueCmd   `cmd:"" help:"List, describe, configure and delete queues."`
	Group   GroupCmd   `cmd:"" help:"List, describe and delete consumer groups."`
	Seek    SeekCmd    `cmd:"" help:"Move a consumer group backwards or forwards in a queue."`
	DLQ     DLQCmd     `cmd:"" name:"dlq" help:"List, replay and delete dead letters."`
	Migrate MigrateCmd `cmd:"" help:"Look at the schema of a database, and move it."`
	Leader  LeaderCmd  `cmd:"" help:"Look at the broker that does the background work, and steer it."`
	Health  HealthCmd  `cmd:"" help:"Ask brokers how they are."`
	Mesh    MeshCmd    `cmd:"" help:"Look at the gossip between brokers, and rotate its key."`
	Bench   BenchCmd   `cmd:"" help:"Measure a cluster against the machine it stands on."`
	Explain ExplainCmd `cmd:"" help:"Say what a code of the log or of an error means, and what to do."`
	Version VersionCmd `cmd:"" help:"Print the version of this program."`
}

// Session is what a command may touch of the process it runs in.
type Session struct {
	Args    []string
	Environ []string
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
	Version string
}

// Main runs the process's own command line and returns its exit code. The first SIGINT or SIGTERM ends the command's
// context, a second one the process.
func Main(version string) int {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		stop()
		<-signals
		fmt.Fprintln(os.Stderr, "waggle: forced to end")
		os.Exit(ExitFailed)
	}()
	return Run(ctx, &Session{
		Args:    os.Args[1:],
		Environ: os.Environ(),
		Stdin:   os.Stdin,
		Stdout:  os.Stdout,
		Stderr:  os.Stderr,
		Version: strings.TrimSpace(version),
	})
}

// Run parses the session's arguments, runs the command and returns the exit code.
func Run(ctx context.Context, s *Session) int {
	command, code := parse(s)
	if command == nil {
		return code
	}
	command.BindTo(ctx, (*context.Context)(nil))
	return report(s.Stderr, command.Run(s))
}

// exited is thrown by kong's exit hook, which help calls in the middle of parsing.
type exited int

func parse(s *Session) (command *kong.Context, code int) {
	defer func() {
		switch e := recover().(type) {
		case nil:
		case exited:
			command, code = nil, int(e)
		default:
			panic(e)
		}
	}()
	environment := newEnvironment(s.Environ)
	parser, err := kong.New(
		&CLI{},
		kong.Name("waggle"),
		kong.Description("A message broker on PostgreSQL. Every flag is also an environment variable."),
		kong.Writers(s.Stdout, s.Stderr),
		kong.Exit(func(code int) { panic(exited(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, FlagsLast: true}),
		kong.PostBuild(environment.register),
		kong.Resolvers(environment),
	)
	if err != nil {
		return nil, report(s.Stderr, fmt.Errorf("build command line: %w", err))
	}
	command, errs := parseAll(parser, environment, s.Args)
	for _, err := range errs {
		code = report(s.Stderr, Fail(ExitUsage, err))
	}
	return command, code
}
