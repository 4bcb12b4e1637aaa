package cli

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/backend/all"
	"github.com/berth-dev/berth/spec"
)

func newInfo(a *app) *cobra.Command {
	var key string
	var showConfig bool
	cmd := &cobra.Command{
		Use:   "info [--key KEY | --backend NAME | --settings]",
		Short: "Say what a sandbox or a backend enforces, or what is configured",
		Long: `Info says of a running sandbox what it enforces, how it is, and what a person should
know of it; of a backend what can be had here and now, and why the rest cannot.
Without --key it asks the backend that --backend names, or all of them.`,
		Example: `  berth info
  berth info --backend process
  berth info --key session-1
  berth info --settings`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case showConfig:
				return a.infoSettings()
			case key != "":
				return a.infoSandbox(cmd, key)
			default:
				return a.infoBackends(cmd)
			}
		},
	}
	cmd.Flags().StringVarP(&key, "key", "k", "", "`KEY` of the sandbox")
	cmd.Flags().BoolVar(&showConfig, "settings", false, "every setting, its value, and where that comes from")
	addSettings(cmd.Flags(), "backend", "owner")
	a.addCompletions(cmd)
	return cmd
}

// capsLine is one backend or sandbox, as JSON has it.
type capsLine struct {
	Name   string      `json:"name"`
	Caps   *spec.Caps  `json:"caps,omitempty"`
	Error  *failure    `json:"error,omitempty"`
	Key    spec.Key    `json:"key,omitempty"`
	ID     string      `json:"id,omitempty"`
	Status *statusLine `json:"status,omitempty"`
}

type statusLine struct {
	State        spec.State `json:"state"`
	Started      time.Time  `json:"started,omitzero"`
	UptimeMS     int64      `json:"uptime_ms"`
	Clients      int        `json:"clients"`
	Commands     int        `json:"commands"`
	IdleInMS     *int64     `json:"idle_in_ms,omitempty"`
	ExpiresInMS  *int64     `json:"expires_in_ms,omitempty"`
	GuestVersion string     `json:"guest_version,omitempty"`
	Notice       string     `json:"notice,omitempty"`
}

func (a *app) infoSandbox(cmd *cobra.Command, name string) error {
	ctx := cmd.Context()
	sb, d, err := a.attach(ctx, name)
	if err != nil {
		return err
	}
	defer cleanup(ctx, sb.Detach)
	caps, err := sb.Caps(ctx)
	if err != nil {
		return err
	}
	st, err := sb.Status(ctx)
	if err != nil {
		return err
	}
	if a.json {
		return a.print(capsLine{Name: d.Name(), Caps: &caps, Key: sb.Key(), ID: sb.ID(), Status: newStatusLine(st)})
	}
	rows := [][]string{
		{"key", string(sb.Key())},
		{"id", sb.ID()},
		{"state", string(st.State)},
		{"up for", short(st.Uptime)},
		{"clients", strconv.Itoa(st.Clients)},
		{"commands", strconv.Itoa(st.Commands)},
		{"ends if idle in", short(st.IdleIn)},
		{"ends in", short(st.ExpiresIn)},
		{"guest", orDash(st.GuestVersion)},
	}
	if st.Notice != "" {
		rows = append(rows, []string{"notice", st.Notice})
	}
	return a.table(append(rows, capsRows(caps)...))
}

func newStatusLine(st spec.Status) *statusLine {
	left := func(d time.Duration) *int64 {
		if d < 0 {
			return nil
		}
		ms := d.Milliseconds()
		return &ms
	}
	return &statusLine{
		State: st.State, Started: st.Started, UptimeMS: st.Uptime.Milliseconds(), Clients: st.Clients, Commands: st.Commands,
		IdleInMS: left(st.IdleIn), ExpiresInMS: left(st.ExpiresIn), GuestVersion: st.GuestVersion, Notice: st.Notice,
	}
}

// infoBackends asks one backend, whose failure is ours, or all of them.
func (a *app) infoBackends(cmd *cobra.Command) error {
	backends := a.registry.Backends()
	one := cmd.Flags().Changed("backend")
	if one {
		b, err := a.registry.Lookup(a.config.Backend)
		if err != nil {
			return err
		}
		backends = []all.Backend{b}
	}
	for i, b := range backends {
		caps, err := probe(cmd.Context(), b)
		if err != nil && one {
			return err
		}
		if i > 0 && !a.json {
			if err := a.say(""); err != nil {
				return err
			}
		}
		if err := a.showBackend(cmd, b, caps, err); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) showBackend(cmd *cobra.Command, b all.Backend, caps spec.Caps, failed error) error {
	line := capsLine{Name: b.Name, Caps: &caps}
	rows := [][]string{{"backend", b.Name}}
	if failed != nil {
		code, message, hint := describe(cmd, failed)
		line.Caps, line.Error = nil, &failure{Code: code, Message: message, Hint: hint, Retryable: code.Info().Retryable}
		rows = append(rows, []string{"cannot be used", message}, []string{"hint", orDash(hint)})
	} else {
		rows = append(rows, capsRows(caps)[1:]...)
	}
	if a.json {
		return a.print(line)
	}
	return a.table(rows)
}

func probe(ctx context.Context, b all.Backend) (spec.Caps, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	d, err := openOne(b)
	if err != nil {
		return spec.Caps{}, err
	}
	caps, err := d.Probe(ctx)
	return caps, spec.Wrap(err, "probe", b.Name, "", "")
}

// capsRows says in words what a place enforces, the backend first.
func capsRows(c spec.Caps) [][]string {
	yes := func(v bool) string {
		if v {
			return "yes"
		}
		return "no"
	}
	var limits []string
	for _, l := range []struct {
		name string
		have bool
	}{{"memory", c.LimitMemory}, {"pids", c.LimitPIDs}, {"cpu", c.LimitCPU}} {
		if l.have {
			limits = append(limits, l.name)
		}
	}
	rows := [][]string{
		{"backend", c.Backend},
		{"system", orDash(strings.Trim(c.OS+"/"+c.Arch, "/"))},
		{"isolation", orDash(c.Isolation.String())},
		{"network", orDash(c.Network.String())},
		{"found again by key", yes(c.Keyed)},
		{"image", yes(c.Image)},
		{"writable roots", yes(c.WritableRoots)},
		{"hidden paths", yes(c.HiddenPaths)},
		{"limits", orDash(strings.Join(limits, ","))},
		{"hardening", yes(c.Hardening)},
		{"guest shielded", yes(c.Shielded)},
		{"ending a tree", orDash(string(c.KillTree))},
		{"survives a lost connection", yes(c.Resume)},
	}
	for line := range strings.SplitSeq(c.Missing, "\n") {
		if line != "" {
			rows = append(rows, []string{"missing", line})
		}
	}
	return rows
}

// infoSettings prints every setting, its value and its source.
func (a *app) infoSettings() error {
	rows := [][]string{{"SETTING", "VALUE", "FROM", "VARIABLE", "FLAG"}}
	for _, v := range a.config.Values {
		flag := v.Flag
		if flag != "" {
			flag = "--" + flag
		}
		if a.json {
			if err := a.print(map[string]string{"setting": v.Key, "value": v.Text, "from": v.Source, "variable": v.Env, "flag": flag, "help": v.Help}); err != nil {
				return err
			}
			continue
		}
		rows = append(rows, []string{v.Key, orDash(v.Text), v.Source, orDash(v.Env), orDash(flag)})
	}
	if a.json {
		return nil
	}
	return a.table(rows)
}
