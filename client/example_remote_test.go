package client_test

import (
	"context"
	"fmt"
	"io"
	"log"

	"github.com/trl-dev/trl/client"
)

// A program that follows a session on another machine, and writes to it.
func ExampleOpenRemote() {
	ctx := context.Background()
	c, err := client.DialGRPC(ctx, "grpcs://box.example:7331", client.GRPCOptions{Token: "…"})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	r, err := client.OpenRemote(ctx, c, "agent", client.RemoteOptions{
		OnState: func(s client.StateChange) { log.Print(s.State, " ", s.Reason) },
	})
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	if err := r.Write(ctx, []byte("{\"type\":\"hello\"}\n")); err != nil {
		log.Fatal(err)
	}
	for {
		piece, err := r.Recv(ctx)
		if err == io.EOF {
			return
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s at %d: %s", piece.Type, piece.Offset, piece.Data)
	}
}
