// Command build-stream runs a build in a session, prints its output as it comes, and upgrades the
// daemon while the build waits for an answer.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: build-stream COMMAND")
	}
	status, err := build(context.Background(), os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	os.Exit(status)
}

// build runs the command and returns its exit status.
func build(ctx context.Context, command string) (int, error) {
	c, err := client.Connect(ctx, "")
	if err != nil {
		return 0, err
	}
	defer c.Close()
	dir, err := os.Getwd()
	if err != nil {
		return 0, err
	}
	// The session ends with this program, but survives the daemon.
	s, err := c.SessionCreate(ctx, api.SessionCreateParams{WorkingDir: dir, Ephemeral: true})
	if err != nil {
		return 0, err
	}
	job, err := c.ExecStart(ctx, api.ExecParams{SessionID: s.SessionID, Command: command, StdinOpen: true})
	if err != nil {
		return 0, err
	}
	out, err := c.ExecStream(ctx, api.ExecStreamParams{ExecID: job.ExecID})
	if err != nil {
		return 0, err
	}
	defer out.Close()

	var printed strings.Builder
	var received int64
	for answered := false; ; {
		event, err := out.Recv() // reconnects by itself
		if errors.Is(err, io.EOF) {
			return 0, errors.New("the stream ended without an exit")
		}
		if err != nil {
			return 0, err
		}
		data := api.Data(event.Data, event.DataBase64)
		switch event.Type {
		case api.EventStderr: // the progress of the compiler
			received += int64(len(data))
		case api.EventStdout:
			received += int64(len(data))
			os.Stdout.Write(data)
			printed.Write(data)
		case api.EventExit:
			return event.ExitCode, report(ctx, c, job.ExecID, event.ExitCode, received)
		}
		if !answered && strings.Contains(printed.String(), "publish?") {
			answered = true
			if err := upgrade(ctx, c); err != nil {
				return 0, err
			}
			if _, err := c.ExecInput(ctx, api.ExecInputParams{ExecID: job.ExecID, Data: "y\n", Close: true}); err != nil {
				return 0, err
			}
		}
	}
}

// upgrade replaces the daemon, as `trl upgrade` does, and returns when the next one answers.
func upgrade(ctx context.Context, c *client.Client) error {
	before, err := c.SystemInfo(ctx, api.SystemInfoParams{})
	if err != nil {
		return err
	}
	if _, err := c.SystemUpgrade(ctx, api.SystemUpgradeParams{}); err != nil {
		return err
	}
	for {
		now, err := c.SystemInfo(ctx, api.SystemInfoParams{})
		if err != nil {
			return err
		}
		if !now.StartedAt.Equal(before.StartedAt) {
			fmt.Println("upgraded the daemon; the build did not notice")
			return nil
		}
	}
}

// report compares the bytes that arrived with the bytes that the build wrote.
func report(ctx context.Context, c *client.Client, id string, status int, received int64) error {
	info, err := c.ExecInfo(ctx, api.ExecInfoParams{ExecID: id})
	if err != nil {
		return err
	}
	if written := info.StdoutBytes + info.StderrBytes; written != received {
		return fmt.Errorf("the build wrote %d bytes, and %d arrived", written, received)
	}
	fmt.Printf("exit status %d, %d bytes, none lost\n", status, received)
	return nil
}
