// Command peers runs the same work on waggle and on what people would use instead, one after the other on the same machine:
// durable publish, deliver, acknowledge, with 256-byte payloads. It stands in a module of its own, so that the product does
// not depend on any of them.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"
)

// options are those of the command line.
type options struct {
	waggle string
	only   string
	rounds int
	side   time.Duration
	json   bool
}

func main() {
	var o options
	flag.StringVar(&o.waggle, "waggle", "../../bin/waggle", "the program of waggle")
	flag.StringVar(&o.only, "systems", "", "only these systems, by name and separated by commas; default all that can be had here")
	flag.IntVar(&o.rounds, "rounds", 3, "rounds; each figure is the median")
	flag.DurationVar(&o.side, "side", 4*time.Second, "how long each measurement counts")
	flag.BoolVar(&o.json, "json", false, "write JSON")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	folder, err := os.MkdirTemp("", "waggle-peers-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	server, err := startPostgres(ctx, folder)
	if err != nil {
		return err
	}
	defer server.stop()
	all := []system{
		&waggle{program: o.waggle, postgres: server}, &river{postgres: server}, &skipLocked{postgres: server},
		&nats{syncAlways: true}, &nats{}, &rabbit{}, &redisStreams{},
	}
	if o.only != "" {
		names := strings.Split(o.only, ",")
		for _, name := range names {
			if !slices.ContainsFunc(all, func(s system) bool { return s.name() == name }) {
				return fmt.Errorf("there is no system %q", name)
			}
		}
		all = slices.DeleteFunc(all, func(s system) bool { return !slices.Contains(names, s.name()) })
	}
	var results []result
	for _, s := range all {
		got, err := measureSystem(ctx, s, folder, o)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "LEFT OUT: %s: %v\n", s.name(), err)
			continue
		}
		results = append(results, got...)
	}
	if o.json {
		encoder := json.NewEncoder(os.Stdout)
		encoder.SetIndent("", "  ")
		return encoder.Encode(results)
	}
	writeTable(os.Stdout, results)
	return nil
}

// cases are what the systems do: batches of one and of a hundred, in any order, in the order of a thousand keys and of one. Those that
// keep no order of keys do the first two.
var cases = []work{
	{batch: 1}, {batch: 100}, {batch: 1, keys: 1000}, {batch: 100, keys: 1000}, {batch: 1, keys: 1}, {batch: 100, keys: 1},
}

func measureSystem(ctx context.Context, s system, folder string, o options) ([]result, error) {
	if err := s.start(ctx, folder); err != nil {
		return nil, err
	}
	defer s.stop()
	fmt.Fprintf(os.Stderr, "%s: %s\n", s.name(), s.settings())
	var results []result
	for _, w := range cases {
		if w.keys > 0 && !s.ordersKeys() {
			continue
		}
		r := result{System: s.name(), Settings: s.settings(), Batch: w.batch, Keys: w.keys}
		for range o.rounds {
			one, err := measure(ctx, s, w, o.side)
			if err != nil {
				return results, fmt.Errorf("batch %d, %d keys: %w", w.batch, w.keys, err)
			}
			r.add(one)
			fmt.Fprintf(os.Stderr, "  batch %3d, %4d keys: %s\n", w.batch, w.keys, one)
		}
		results = append(results, r)
	}
	return results, nil
}
