package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/api/spec"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/ui"
	"github.com/trl-dev/trl/internal/near"
)

func (a *app) callCommand() *cobra.Command {
	var pretty bool
	cmd := &cobra.Command{
		Use:     "call [METHOD [JSON|-]]",
		GroupID: groupOther,
		Short:   "Call a method of the API with JSON",
		Long: `Call a method of the API and print its answer as JSON. The parameters are one JSON
object, or - to read it from stdin. A method that streams prints its answer and then
each push on a separate line. Without a method, trl call lists the methods; --help with
a method explains its parameters.

Things that belong to the connection (an ephemeral session, a command that is not
detached) end with trl.`,
		Example: `  trl call
  trl call system.info
  trl call --help exec.run
  trl call exec.run '{"session_id":"build","command":"make"}'
  echo '{"name":"build"}' | trl call session.create -`,
		Args: ui.Args(0, 2, "a method and its parameters"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				a.printMethods()
				return nil
			}
			if !cmd.Flags().Changed("pretty") {
				pretty = a.Stdout.TTY
			}
			params, err := a.callParams(cmd, args[1:])
			if err != nil {
				return err
			}
			return a.withClient(cmd, func(ctx context.Context, c *client.Client) error {
				err = a.call(cmd, c, args[0], params, pretty)
				var e *api.Error
				if errors.As(err, &e) {
					return fmt.Errorf("%s: %w", e.Code, err)
				}
				return err
			})
		},
		ValidArgsFunction: completeMethods,
	}
	overview := cmd.HelpFunc()
	cmd.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		// args would include the flags.
		if methods := cmd.Flags().Args(); len(methods) > 0 {
			a.noHelp = a.explainMethod(cmd, methods[0])
			return
		}
		overview(cmd, args)
		fmt.Fprintln(a.Stdout, "\nMethods:")
		for _, m := range api.Methods() {
			fmt.Fprintf(a.Stdout, "  %-16s %s\n", m.Name, m.Summary)
		}
	})
	cmd.Flags().BoolVar(&pretty, "pretty", false, "indent the JSON (default on a terminal)")
	return cmd
}

func (a *app) printMethods() {
	t := ui.Table{Header: []string{"METHOD", "WHAT IT DOES"}}
	for _, m := range api.Methods() {
		t.Add(ui.Text(m.Name), ui.Text(m.Summary))
	}
	a.Stdout.Table(t)
}

// explainMethod prints the parameters and the answer of a method.
func (a *app) explainMethod(cmd *cobra.Command, name string) error {
	if text := spec.Help(name); text != "" {
		_, err := fmt.Fprint(a.Stdout, text)
		return err
	}
	err := ui.UsageErrorf(cmd, "this trl knows no method %q", name)
	var names []string
	for _, m := range api.Methods() {
		names = append(names, m.Name)
	}
	if err.Hint = "`trl call` lists the methods"; near.Word(name, names, 2) != "" {
		err.Hint = "did you mean " + near.Word(name, names, 2) + "?"
	}
	return err
}

// callParams reads the parameters. It rejects invalid JSON before a daemon is started.
func (a *app) callParams(cmd *cobra.Command, args []string) (json.RawMessage, error) {
	if len(args) == 0 {
		return nil, nil
	}
	raw := []byte(args[0])
	if args[0] == "-" {
		var err error
		if raw, err = io.ReadAll(a.Stdin); err != nil {
			return nil, fmt.Errorf("read stdin: %w", err)
		}
	}
	raw = bytes.TrimSpace(raw)
	var checked json.RawMessage
	if err := json.Unmarshal(raw, &checked); err != nil {
		return nil, ui.UsageErrorf(cmd, "parameters: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return raw, nil
}

func (a *app) call(cmd *cobra.Command, c *client.Client, method string, params json.RawMessage, pretty bool) error {
	m, known := api.FindMethod(method)
	if !known || !m.Streams {
		// Unparsed: a newer daemon may have methods and fields that this trl does not know.
		data, err := c.Call(cmd.Context(), method, params)
		if err != nil {
			return err
		}
		return a.printRaw(data, pretty)
	}
	answer, err := m.Call(cmd.Context(), c, params)
	if err != nil {
		return err
	}
	stream := answer.(api.Stream)
	defer stream.Close()
	if err := a.Stdout.JSONLine(stream.Start()); err != nil {
		return err
	}
	for {
		push, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := a.Stdout.JSONLine(push); err != nil {
			return err
		}
	}
}

// printRaw prints an answer and changes nothing but white space.
func (a *app) printRaw(data json.RawMessage, pretty bool) error {
	var b bytes.Buffer
	write := json.Compact
	if pretty {
		write = func(dst *bytes.Buffer, src []byte) error { return json.Indent(dst, src, "", "  ") }
	}
	if err := write(&b, data); err != nil {
		return err
	}
	b.WriteByte('\n')
	_, err := a.Stdout.Write(b.Bytes())
	return err
}
