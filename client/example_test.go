package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
)

// Run commands in a session that keeps its state.
func ExampleConnect() {
	ctx := context.Background()
	c, err := client.Connect(ctx, "") // the daemon of this user; or a path, or http://… or grpc://…
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	s, err := c.SessionCreate(ctx, api.SessionCreateParams{Shell: "bash", Env: map[string]string{"WHO": "world"}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.SessionDestroy(ctx, api.SessionDestroyParams{SessionID: s.SessionID})

	limit := 10.0
	for _, command := range []string{"cd /usr; greet() { echo hello $WHO from $PWD; }", "greet; exit 3"} {
		r, err := c.ExecRun(ctx, api.ExecParams{SessionID: s.SessionID, Command: command, TimeoutS: &limit})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d %q\n", r.ExitCode, r.Stdout) // a failed command is a result, not an error
	}
}

// Read the output of a command while it runs.
func ExampleClient_ExecStream() {
	ctx := context.Background()
	c, err := client.Connect(ctx, "")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	s, err := c.SessionCreate(ctx, api.SessionCreateParams{Ephemeral: true}) // ends with the connection
	if err != nil {
		log.Fatal(err)
	}
	out, err := c.ExecStream(ctx, api.ExecStreamParams{ExecParams: api.ExecParams{SessionID: s.SessionID, Command: "echo one; echo two; exit 4"}})
	if err != nil {
		log.Fatal(err)
	}
	defer out.Close()
	for {
		ev, err := out.Recv() // goes on by itself when the daemon is restarted
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			log.Fatal(err)
		}
		switch ev.Type {
		case api.EventStdout, api.EventStderr:
			os.Stdout.Write(api.Data(ev.Data, ev.DataBase64))
		case api.EventExit:
			fmt.Println("exit", ev.ExitCode)
		}
	}
}

// Start something in the background, wait for a line of its output, talk to it, and stop it.
func ExampleClient_ExecStart() {
	ctx := context.Background()
	c, err := client.Connect(ctx, "")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	s, err := c.SessionCreate(ctx, api.SessionCreateParams{Ephemeral: true})
	if err != nil {
		log.Fatal(err)
	}
	job, err := c.ExecStart(ctx, api.ExecParams{SessionID: s.SessionID, Command: "echo ready; read x; echo got $x; sleep 1000", StdinOpen: true})
	if err != nil {
		log.Fatal(err)
	}
	r, err := c.ExecWait(ctx, api.ExecWaitParams{ExecIDs: []string{job.ExecID}, OutputMatch: "^ready"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Happened[0].Match.Text)
	if _, err := c.ExecInput(ctx, api.ExecInputParams{ExecID: job.ExecID, Data: "it\n"}); err != nil {
		log.Fatal(err)
	}
	if r, err = c.ExecWait(ctx, api.ExecWaitParams{ExecIDs: []string{job.ExecID}, OutputMatch: "^got"}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Happened[0].Match.Text)
	ended, err := c.ExecCancel(ctx, api.ExecCancelParams{ExecID: job.ExecID}) // and everything it started
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("cancelled:", ended.Outcome.Cancelled)
}

// Drive a program that wants a terminal.
func ExampleClient_SessionScreen() {
	ctx := context.Background()
	c, err := client.Connect(ctx, "")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	t, err := c.SessionCreate(ctx, api.SessionCreateParams{
		Kind: api.KindTerminal, Command: []string{"sh", "-c", "printf 'name? '; read x; echo hello $x; exec cat"}, Ephemeral: true,
	})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := c.SessionWait(ctx, api.SessionWaitParams{SessionID: t.SessionID, Text: `^name\?`}); err != nil {
		log.Fatal(err)
	}
	if _, err := c.SessionInput(ctx, api.SessionInputParams{SessionID: t.SessionID, Text: "Ada", Keys: []string{"enter"}}); err != nil {
		log.Fatal(err)
	}
	if _, err := c.SessionWait(ctx, api.SessionWaitParams{SessionID: t.SessionID, Text: "^hello"}); err != nil {
		log.Fatal(err)
	}
	screen, err := c.SessionScreen(ctx, api.SessionScreenParams{SessionID: t.SessionID})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(screen.Text)
}

// Tell errors apart by their code.
func ExampleClient_errors() {
	ctx := context.Background()
	c, err := client.Connect(ctx, "")
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	_, err = c.ExecRun(ctx, api.ExecParams{SessionID: "nobody", Command: "true"})
	if errors.Is(err, api.ErrSessionNotFound) {
		fmt.Println(api.AsError(err).Code, err)
	}
}
