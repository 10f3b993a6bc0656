package main

import (
	"context"
	"os/exec"
	"path/filepath"
)

// work is one way of publishing and consuming. Without keys any order will do.
type work struct{ batch, keys int }

// message is one of 256 bytes, in the order of its key.
type message struct {
	key     int
	payload []byte
}

// system is what is measured. Everything published is durable when publish returns, and consumed messages are acknowledged
// before consume hands out the next ones.
type system interface {
	name() string
	// settings says how it was tuned, in words.
	settings() string
	// start makes it ready, or says why it cannot be had here.
	start(ctx context.Context, folder string) error
	stop()
	// pids are the processes whose time counts beside that of this one.
	pids() []int
	// ordersKeys says that messages of one key are consumed in their order, by however many consumers, while those of others are
	// not held back.
	ordersKeys() bool
	// topic makes an empty queue for some work.
	topic(ctx context.Context, w work) (topic, error)
}

// topic is a queue. Producers and consumers are called once a goroutine.
type topic interface {
	producer(ctx context.Context) (publish func(context.Context, []message) error, err error)
	// consume hands out payloads until the context ends.
	consume(ctx context.Context, worker int, handle func(payloads [][]byte)) error
	close()
}

// find returns the path of a program, also where Debian hides it.
func find(program string) (string, error) {
	if path, err := exec.LookPath(program); err == nil {
		return path, nil
	}
	for _, pattern := range []string{"/usr/sbin/" + program, "/usr/lib/postgresql/*/bin/" + program, "/usr/lib/rabbitmq/bin/" + program} {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			return found[len(found)-1], nil
		}
	}
	return "", &exec.Error{Name: program, Err: exec.ErrNotFound}
}
