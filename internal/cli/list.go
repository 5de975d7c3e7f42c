package cli

import (
	"errors"
	"sync"

	"github.com/spf13/pflag"

	"github.com/trl-dev/trl/internal/cli/ui"
)

// listFlags are the flags of a command that lists sessions, dialogues or commands.
type listFlags struct{ all, quiet, json bool }

// register adds the flags, with those that filter registers between them.
func (f *listFlags) register(flags *pflag.FlagSet, filter func()) {
	flags.SortFlags = false
	flags.BoolVarP(&f.all, "all", "a", false, "also those that have ended")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "ids only")
	filter()
	flags.BoolVar(&f.json, "json", false, "print JSON")
}

// printList prints the result of a list call as the flags ask: as JSON, as the ids of its items,
// or as a table.
func printList[T any](out *ui.Printer, f listFlags, result any, items []T, id func(T) string, table func([]T) error) error {
	switch {
	case f.json:
		return out.JSON(result)
	case f.quiet:
		for _, item := range items {
			out.Line(id(item))
		}
		return nil
	}
	return table(items)
}

// endEach ends the named sessions or dialogues, all at the same time. It calls ended for each
// that has ended or, with asJSON, prints all results as a list with that key.
func endEach[R any](out *ui.Printer, names []string, end func(name string) (R, error), ended func(name string, r R), key string, asJSON bool) error {
	results, errs := make([]R, len(names)), make([]error, len(names))
	var wait sync.WaitGroup
	for i, name := range names {
		wait.Go(func() { results[i], errs[i] = end(name) })
	}
	wait.Wait()
	list := []R{}
	for i, r := range results {
		if errs[i] != nil {
			continue
		}
		list = append(list, r)
		if !asJSON {
			ended(names[i], r)
		}
	}
	if asJSON {
		if err := out.JSON(map[string]any{key: list}); err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}
