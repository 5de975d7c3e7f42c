// Command kubernetes-batch runs a command for each item in sessions elsewhere, such as pods.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"strings"
	"sync"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
)

func main() {
	log.SetFlags(0)
	on := flag.String("on", "k8s:debian:12", "the place of the workers")
	pods := flag.Int("pods", 2, "how many workers")
	flag.Parse()
	if flag.NArg() < 2 {
		log.Fatal("usage: kubernetes-batch [-on PLACE] [-pods N] COMMAND ITEM...")
	}
	b := batch{command: flag.Arg(0), items: flag.Args()[1:]}
	if err := b.run(context.Background(), *on, *pods); err != nil {
		log.Fatal(err)
	}
}

// batch is a command, its items and their results.
type batch struct {
	command string
	items   []string
	results []api.ExecResult
}

func (b *batch) run(ctx context.Context, on string, workers int) error {
	c, err := client.Connect(ctx, "")
	if err != nil {
		return err
	}
	defer c.Close() // and with it the sessions and their pods

	b.results = make([]api.ExecResult, len(b.items))
	next := make(chan int, len(b.items))
	for i := range b.items {
		next <- i
	}
	close(next)
	failures := make([]error, workers)
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() { failures[w] = b.work(ctx, c, on, next) })
	}
	group.Wait()
	if err := errors.Join(failures...); err != nil {
		return err
	}
	return b.print()
}

// work runs items in one session until none is left.
func (b *batch) work(ctx context.Context, c *client.Client, on string, next <-chan int) error {
	s, err := c.SessionCreate(ctx, api.SessionCreateParams{Runtime: on, Shell: "none", Ephemeral: true})
	if err != nil {
		return err
	}
	for i := range next {
		argv := []string{"sh", "-c", b.command, "sh", b.items[i]}
		if b.results[i], err = c.ExecRun(ctx, api.ExecParams{SessionID: s.SessionID, Argv: argv}); err != nil {
			return fmt.Errorf("%s: %w", b.items[i], err)
		}
	}
	_, err = c.SessionDestroy(ctx, api.SessionDestroyParams{SessionID: s.SessionID})
	return err
}

func (b *batch) print() error {
	failed := 0
	for i, r := range b.results {
		if r.ExitCode != 0 {
			failed++
			fmt.Printf("%s: exit status %d\n", b.items[i], r.ExitCode)
			continue
		}
		fmt.Printf("%s: %s\n", b.items[i], strings.TrimSpace(r.Stdout))
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d failed", failed, len(b.results))
	}
	return nil
}
