package cli

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/ui"
	"github.com/trl-dev/trl/internal/config"
	"github.com/trl-dev/trl/internal/near"
)

// placeFlags say where a new session will be.
type placeFlags struct {
	on     string
	beside ui.NameFlag
	set    []string // NAME=VALUE
	// isolate is the isolation profile; with bestEffort, the session is created even if parts of it
	// cannot be enforced.
	isolate    string
	bestEffort bool

	registered bool              // the command creates sessions
	options    *api.PlaceOptions // of set; nil without
	// elsewhere says that the session will not be on the daemon's machine, so that the caller's
	// directory and environment mean nothing to it.
	elsewhere bool
}

// registerPlace adds the flags to a command that creates sessions.
func (a *app) registerPlace(cmd *cobra.Command) {
	flags, f := cmd.Flags(), &a.place
	flags.StringVar(&f.on, "on", "", "`PLACE` of a new session: host, docker:IMAGE, ssh:HOST, or a name; see trl help runtimes")
	flags.StringArrayVar(&f.set, "place", nil, "set an option of the place, as `NAME=VALUE`; may be repeated")
	flags.StringVar(&f.isolate, "isolate", "", "isolate a new session as this `PROFILE` says: workspace, read-only, or one of the configuration")
	f.registered = true
	a.completeFlag(cmd, "on", a.completePlaces)
	a.completeFlag(cmd, "place", completeOptions)
	a.completeFlag(cmd, "isolate", a.completeProfiles)
}

// completeProfiles offers the profiles of isolation.
func (a *app) completeProfiles(cmd *cobra.Command, _ []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	list := slices.Sorted(maps.Keys(api.BuiltinIsolation()))
	if cfg, err := a.settings(cmd); err == nil {
		list = append(list, slices.Sorted(maps.Keys(cfg.Isolation))...)
	}
	return keep(list, prefix), cobra.ShellCompDirectiveNoFileComp
}

// isolation returns the isolation of a new session; nil for none.
func (f *placeFlags) isolation() (*api.Isolation, api.LimitsMode) {
	switch {
	case f.isolate == "":
		return nil, ""
	case f.bestEffort:
		return &api.Isolation{Profile: f.isolate}, api.LimitsBestEffort
	}
	return &api.Isolation{Profile: f.isolate}, ""
}

// registerBeside adds the flag for the place of another session.
func (a *app) registerBeside(cmd *cobra.Command) {
	cmd.Flags().Var(&a.place.beside, "beside", "in the container, pod or machine of the session of this `NAME` or id")
	a.completeFlag(cmd, "beside", a.completeSessions)
}

// resolve completes the flags with the settings: without a flag, the place is default_runtime.
func (f *placeFlags) resolve(cmd *cobra.Command, cfg config.Config, url string) error {
	if !f.registered {
		return nil
	}
	f.bestEffort = cmd.Flags().Changed("best-effort")
	if f.on == "" && f.beside == "" && url == "" && cfg.DefaultRuntime != string(api.PlaceHost) {
		f.on = cfg.DefaultRuntime
	}
	kind := api.PlaceHost
	if named, ok := cfg.Runtimes[f.on]; ok {
		kind = named.Kind
	} else if f.on != "" {
		info, _, _ := api.ParsePlace(f.on) // the daemon reports what is wrong with it
		kind = info.Kind
	}
	f.elsewhere = f.beside != "" || kind != api.PlaceHost
	var err error
	f.options, err = readOptions(f.set)
	if err != nil {
		return ui.UsageErrorf(cmd, "--place: %s", err)
	}
	return nil
}

// readOptions reads NAME=VALUE. A list grows with every value, and a value of a table is KEY=VALUE.
// Relative paths are those of the caller.
func readOptions(list []string) (*api.PlaceOptions, error) {
	if len(list) == 0 {
		return nil, nil
	}
	o := &api.PlaceOptions{}
	for _, text := range list {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			return nil, fmt.Errorf("%q is not NAME=VALUE", text)
		}
		field := optionField(o, name)
		if !field.IsValid() {
			if meant := near.Word(name, optionNames(), len(name)/3+1); meant != "" {
				return nil, fmt.Errorf("there is no option %q; did you mean %s?", name, meant)
			}
			return nil, fmt.Errorf("there is no option %q; the options are %s", name, strings.Join(optionNames(), ", "))
		}
		switch field.Kind() {
		case reflect.String:
			if slices.Contains(optionFiles, name) && !strings.HasPrefix(value, "~/") {
				var err error
				if value, err = filepath.Abs(value); err != nil {
					return nil, err
				}
			}
			field.SetString(value)
		case reflect.Slice:
			field.Set(reflect.Append(field, reflect.ValueOf(value)))
		case reflect.Map:
			key, of, ok := strings.Cut(value, "=")
			if !ok {
				return nil, fmt.Errorf("%s: %q is not KEY=VALUE", name, value)
			}
			if field.IsNil() {
				field.Set(reflect.MakeMap(field.Type()))
			}
			field.SetMapIndex(reflect.ValueOf(key), reflect.ValueOf(of))
		case reflect.Float64:
			number, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return nil, fmt.Errorf("%s: %q is not a number", name, value)
			}
			field.SetFloat(number)
		default: // a switch
			var yes *bool
			if err := json.Unmarshal([]byte(value), &yes); err != nil || yes == nil {
				return nil, fmt.Errorf("%s: must be true or false", name)
			}
			field.Set(reflect.ValueOf(yes))
		}
	}
	return o, nil
}

// optionFiles are the options that are paths on the daemon's machine.
var optionFiles = []string{"identity", "pod_template", "token_file", "ca_file", "cert_file", "key_file"}

func optionField(o *api.PlaceOptions, name string) reflect.Value {
	v := reflect.ValueOf(o).Elem()
	for i := range v.NumField() {
		if tag, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ","); tag == name {
			return v.Field(i)
		}
	}
	return reflect.Value{}
}

// optionNames returns the names of all options, in the order of the kinds.
func optionNames() []string {
	var names []string
	for _, k := range api.PlaceKinds() {
		for _, name := range k.All() {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// samePlace reports whether the session will be where the caller is: then paths and variables of
// the caller mean the same to it.
func (a *app) samePlace() bool { return a.sameMachine() && !a.place.elsewhere }

// fillPlace adds the place to a request.
func (a *app) fillPlace(p *api.SessionCreateParams) {
	p.Runtime, p.Place, p.Beside = a.place.on, a.place.options, string(a.place.beside)
	p.Isolation, p.IsolationMode = a.place.isolation()
	if a.place.elsewhere {
		p.CreateID = rand.Text()
	}
}

// createSession creates a session, and shows its slow steps.
func (a *app) createSession(ctx context.Context, c *client.Client, p api.SessionCreateParams) (api.SessionInfo, error) {
	defer a.showSteps(ctx, c, p.CreateID)()
	info, err := c.SessionCreate(ctx, p)
	if err == nil && (p.Limits != nil && p.LimitsMode == api.LimitsBestEffort || p.Isolation != nil) {
		a.reportEnforcement(ctx, c, info.SessionID, p.IsolationMode == api.LimitsBestEffort)
	}
	return info, err
}

// reportEnforcement prints which limits and which isolation of a session are not in force. Without best effort,
// only signals can be missing of what a user expects.
func (a *app) reportEnforcement(ctx context.Context, c *client.Client, id string, bestEffort bool) {
	details, err := c.SessionInfo(ctx, api.SessionInfoParams{SessionID: id})
	if err != nil {
		return
	}
	if details.Limits != nil {
		a.reportLimits(&details.Limits.LimitReport)
	}
	if details.Isolation != nil {
		for _, u := range details.Isolation.NotEnforced {
			if bestEffort || u.Aspect == api.AspectSignals {
				a.Stderr.Linef("trl: isolation of %s: not enforced: %s", u.Aspect, u.Reason)
			}
		}
	}
}

// showSteps shows the slow steps of a creation until the function that it returns is called: on a
// terminal as a line that changes, elsewhere, with --verbose, as lines. Without them, stderr has
// only what the command writes.
func (a *app) showSteps(ctx context.Context, c *client.Client, createID string) (done func()) {
	if createID == "" || !a.Stderr.TTY && !a.verbose {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	s, err := c.EventSubscribe(ctx, api.EventSubscribeParams{Types: []string{api.EventSessionProgress}})
	if err != nil { // a daemon that cannot report them
		cancel()
		return func() {}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer s.Close()
		line := stepLine{out: a.Stderr}
		defer line.clear()
		for {
			ev, err := s.Recv()
			if err != nil {
				return
			}
			if ev.CreateID == createID && ev.Progress != nil {
				line.show(*ev.Progress)
			}
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// stepLine shows the step that is under way.
type stepLine struct {
	out   *ui.Printer
	last  string
	shown bool
}

func (l *stepLine) show(p api.PlaceProgress) {
	if !l.out.Redraws() {
		if p.Message != l.last {
			l.out.Line("trl: " + ui.Printable(p.Message))
		}
		l.last = p.Message
		return
	}
	text := ui.Printable(p.Message)
	switch {
	case p.Total > 0:
		text += fmt.Sprintf(", %s of %s, %d%%", ui.BytesText(float64(p.Done)), ui.BytesText(float64(p.Total)), min(100, p.Done*100/p.Total))
	case p.Done > 0:
		text += ", " + ui.BytesText(float64(p.Done))
	}
	l.shown = true
	_, _ = l.out.Write([]byte("\r\x1b[K" + l.out.Paint(ui.Dim, text)))
}

func (l *stepLine) clear() {
	if l.shown {
		_, _ = l.out.Write([]byte("\r\x1b[K"))
	}
}

// completePlaces offers the names of the configuration, sessions' kinds, and kinds with a colon.
func (a *app) completePlaces(cmd *cobra.Command, _ []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var list []cobra.Completion
	directive := cobra.ShellCompDirectiveNoFileComp
	cfg, err := a.settings(cmd)
	if err == nil {
		for _, name := range slices.Sorted(maps.Keys(cfg.Runtimes)) {
			list = append(list, cobra.CompletionWithDesc(name, string(cfg.Runtimes[name].Kind)))
		}
	}
	for _, k := range api.PlaceKinds() {
		if k.Argument == "" {
			list = append(list, cobra.CompletionWithDesc(string(k.Kind), k.Doc))
			continue
		}
		list = append(list, cobra.CompletionWithDesc(string(k.Kind)+":", k.Doc))
	}
	kept := keep(list, prefix)
	if len(kept) == 1 && strings.Contains(strings.SplitN(kept[0], "\t", 2)[0], ":") {
		directive |= cobra.ShellCompDirectiveNoSpace
	}
	return kept, directive
}

// completeOptions offers the options of places.
func completeOptions(_ *cobra.Command, _ []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var list []cobra.Completion
	for _, name := range optionNames() {
		list = append(list, name+"=")
	}
	return keep(list, prefix), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}
