package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
)

const (
	// feedText is how much input each command gets: many times what may wait for it.
	feedText = 400 << 20
	// feedPiece is how much is written at once.
	feedPiece = 1 << 20
	// goalFeed is what input must reach, in MB/s.
	goalFeed = 200
)

// way is one of the ways to a daemon.
type way struct {
	name   string
	client *client.Client
}

// feed measures input: zeros, which JSON could only carry in base64, for a command that reads
// as fast as it can. The floor is a bare pipe.
func (b *bench) feed(d *daemon, ways []way) error {
	floor, err := b.feedProgram("wc", "-c")
	if err != nil {
		return err
	}
	rate := float64(feedText) / floor.Seconds()
	for _, w := range ways {
		took, err := b.feedOver(w.client)
		if err != nil {
			return fmt.Errorf("input over %s: %w", w.name, err)
		}
		b.report.rate("420 MB of input over "+w.name, feedText, took, rate, goalFeed)
	}
	took, err := b.feedProgram(b.binary, "--socket", d.socket, "run", "-i", "wc -c")
	if err != nil {
		return err
	}
	b.report.rate("420 MB of input for trl run -i", feedText, took, rate, goalFeed)
	return nil
}

// feedProgram writes to the stdin of a program that counts it.
func (b *bench) feedProgram(name string, args ...string) (time.Duration, error) {
	cmd := exec.Command(name, args...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return 0, err
	}
	var out strings.Builder
	cmd.Stdout = &out
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	piece := make([]byte, feedPiece)
	for n := 0; n < feedText && err == nil; n += len(piece) {
		_, err = in.Write(piece)
	}
	if err = errors.Join(err, in.Close(), cmd.Wait()); err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return time.Since(began), counted(out.String())
}

// feedOver writes to the stdin of a command with the Go client.
func (b *bench) feedOver(c *client.Client) (time.Duration, error) {
	ctx := context.Background()
	session, err := c.SessionCreate(ctx, api.SessionCreateParams{Shell: b.shells[0].path})
	if err != nil {
		return 0, err
	}
	began := time.Now()
	s, err := c.ExecStream(ctx, api.ExecStreamParams{ExecParams: api.ExecParams{SessionID: session.SessionID, Command: "wc -c", StdinOpen: true}})
	if err != nil {
		return 0, err
	}
	defer s.Close()
	piece := make([]byte, feedPiece)
	for n := 0; n < feedText; {
		_, err := c.ExecInput(ctx, api.ExecInputParams{ExecID: s.Start().ExecID, Bytes: piece, Close: n+len(piece) == feedText})
		if errors.Is(err, api.ErrResourcePressure) { // the command is behind
			time.Sleep(5 * time.Millisecond)
			continue
		}
		if err != nil {
			return 0, err
		}
		n += len(piece)
	}
	out := ""
	for {
		ev, err := s.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, err
		}
		out += ev.Data
	}
	took := time.Since(began)
	if _, err := c.SessionDestroy(ctx, api.SessionDestroyParams{SessionID: session.SessionID, Force: true}); err != nil {
		return 0, err
	}
	return took, counted(out)
}

// counted checks what wc printed.
func counted(out string) error {
	if n, err := strconv.Atoi(strings.TrimSpace(out)); err != nil || n != feedText {
		return fmt.Errorf("the command counted %q of %d bytes", out, feedText)
	}
	return nil
}
