package cli

import (
	"cmp"
	"context"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/backend/all"
	"github.com/berth-dev/berth/internal/cli/console"
	"github.com/berth-dev/berth/internal/cli/verb"
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
		Args:        verb.NoArguments,
		Annotations: map[string]string{verb.Tolerant: "yes"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case showConfig:
				return a.infoSettings()
			case len(a.Wrong) > 0:
				return a.Wrong[0]
			case key != "":
				return a.infoSandbox(cmd, key)
			default:
				return a.infoBackends(cmd)
			}
		},
	}
	verb.AddKey(cmd.Flags(), &key, "`KEY` of the sandbox")
	cmd.Flags().BoolVar(&showConfig, "settings", false, "every setting, its value, and where that comes from")
	verb.AddSettings(cmd.Flags(), "backend", "owner")
	a.AddCompletions(cmd)
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
	UnusedForMS  int64      `json:"unused_for_ms"`
	GuestVersion string     `json:"guest_version,omitempty"`
	Notice       string     `json:"notice,omitempty"`
	// Writes and Hides are the paths of this machine that commands may write, and
	// those that are hidden from them.
	Writes []string `json:"writes,omitempty"`
	Hides  []string `json:"hides,omitempty"`
	// Image, User and Workdir are what a container was made from and with; Mounts and Ports
	// what it has of the engine's machine, and shows there.
	Image   string               `json:"image,omitempty"`
	User    string               `json:"user,omitempty"`
	Workdir string               `json:"workdir,omitempty"`
	Mounts  []spec.Mount         `json:"mounts,omitempty"`
	Ports   []spec.PublishedPort `json:"ports,omitempty"`
	// Limits are those in force; what follows is what the place uses of its memory.
	Limits          spec.Limits `json:"limits,omitzero"`
	MemoryBytes     int64       `json:"memory_bytes,omitempty"`
	MemoryPeakBytes int64       `json:"memory_peak_bytes,omitempty"`
	OOMKills        int64       `json:"oom_kills,omitempty"`
}

func (a *app) infoSandbox(cmd *cobra.Command, name string) error {
	ctx := cmd.Context()
	sb, d, err := a.Attach(ctx, name)
	if err != nil {
		return err
	}
	defer verb.Detach(ctx, sb)
	caps, err := sb.Caps(ctx)
	if err != nil {
		return err
	}
	st, err := sb.Status(ctx)
	if err != nil {
		return err
	}
	var ports []spec.PublishedPort
	if caps.PublishedPorts {
		if ports, err = sb.PublishedPorts(ctx); err != nil {
			return err
		}
	}
	if a.JSON {
		line := newStatusLine(st)
		line.Ports = ports
		return a.Print(capsLine{Name: d.Name(), Caps: &caps, Key: sb.Key(), ID: sb.ID(), Status: line})
	}
	rows := [][]string{
		{"key", string(sb.Key())},
		{"id", sb.ID()},
		{"state", string(st.State)},
		{"up for", console.Short(st.Uptime)},
		{"clients", strconv.Itoa(st.Clients)},
		{"commands", strconv.Itoa(st.Commands)},
		{"unused for", console.Short(st.UnusedFor)},
		{"ends if idle in", console.Short(st.IdleIn)},
		{"ends in", console.Short(st.ExpiresIn)},
		{"guest", console.OrDash(st.GuestVersion)},
	}
	if st.Notice != "" {
		rows = append(rows, []string{"notice", st.Notice})
	}
	rows = append(rows, capsRows(caps)...)
	rows = append(rows, usageRows(st)...)
	for _, path := range st.Writable {
		rows = append(rows, []string{"writes", path})
	}
	for _, path := range st.Hidden {
		rows = append(rows, []string{"hides", path})
	}
	rows = append(rows, outsideRows(st, ports)...)
	return a.Table(rows)
}

// outsideRows says what a container was made from, what it has of the engine's machine, and
// what it shows there.
func outsideRows(st spec.Status, ports []spec.PublishedPort) [][]string {
	var rows [][]string
	if st.Image != "" {
		rows = append(rows, []string{"image", st.Image}, []string{"user", cmp.Or(st.User, "root")}, []string{"workdir", st.Workdir})
	}
	for _, m := range st.Mounts {
		text := m.Source + " at " + m.Target
		if m.ReadOnly {
			text += ", read-only"
		}
		rows = append(rows, []string{"mounts", text})
	}
	for _, p := range ports {
		host := net.JoinHostPort(p.Address, strconv.Itoa(p.Host))
		rows = append(rows, []string{"publishes", strconv.Itoa(p.Container) + "/" + string(p.Protocol) + " at " + host})
	}
	return rows
}

// usageRows says what the place uses of what it may use.
func usageRows(st spec.Status) [][]string {
	var rows [][]string
	if st.MemoryBytes > 0 {
		text := console.Bytes(st.MemoryBytes)
		if st.Limits.MemoryBytes > 0 {
			text += " of " + console.Bytes(st.Limits.MemoryBytes)
		}
		rows = append(rows, []string{"memory", text + ", at most " + console.Bytes(st.MemoryPeakBytes)})
	}
	if st.OOMKills > 0 {
		rows = append(rows, []string{"out of memory", strconv.FormatInt(st.OOMKills, 10) + " processes killed"})
	}
	if st.Limits.PIDs > 0 {
		rows = append(rows, []string{"processes", "at most " + strconv.FormatInt(st.Limits.PIDs, 10)})
	}
	if st.Limits.CPUMillis > 0 {
		rows = append(rows, []string{"CPUs", "at most " + strconv.FormatFloat(float64(st.Limits.CPUMillis)/1000, 'g', -1, 64)})
	}
	return rows
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
		IdleInMS: left(st.IdleIn), ExpiresInMS: left(st.ExpiresIn), UnusedForMS: st.UnusedFor.Milliseconds(), GuestVersion: st.GuestVersion, Notice: st.Notice,
		Writes: st.Writable, Hides: st.Hidden, Image: st.Image, User: st.User, Workdir: st.Workdir, Mounts: st.Mounts,
		Limits: st.Limits, MemoryBytes: st.MemoryBytes, MemoryPeakBytes: st.MemoryPeakBytes, OOMKills: st.OOMKills,
	}
}

// infoBackends asks one backend, whose failure is ours, or all of them.
func (a *app) infoBackends(cmd *cobra.Command) error {
	backends := a.Registry.Backends()
	one := cmd.Flags().Changed("backend")
	if one {
		b, err := a.Registry.Lookup(a.Config.Backend)
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
		if i > 0 && !a.JSON {
			if err := a.Say(""); err != nil {
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
		rows = append(rows, []string{"cannot be used", message}, []string{"hint", console.OrDash(hint)})
	} else {
		rows = append(rows, capsRows(caps)[1:]...)
	}
	if a.JSON {
		return a.Print(line)
	}
	return a.Table(rows)
}

func probe(ctx context.Context, b all.Backend) (spec.Caps, error) {
	ctx, cancel := context.WithTimeout(ctx, verb.AnswerTimeout)
	defer cancel()
	d, err := verb.OpenOne(b)
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
	}{{"memory", c.LimitMemory}, {"pids", c.LimitPIDs}, {"cpu", c.LimitCPU}, {"disk", c.LimitDisk}, {"gpus", c.GPUs}} {
		if l.have {
			limits = append(limits, l.name)
		}
	}
	rows := [][]string{
		{"backend", c.Backend},
		{"system", console.OrDash(strings.Trim(c.OS+"/"+c.Arch, "/"))},
		{"isolation", console.OrDash(c.Isolation.String())},
		{"network", console.OrDash(c.Network.String())},
		{"found again by key", yes(c.Keyed)},
		{"image", yes(c.Image)},
		{"writable roots", yes(c.WritableRoots)},
		{"hidden paths", yes(c.HiddenPaths)},
		{"limits", console.OrDash(strings.Join(limits, ","))},
		{"hardening", yes(c.Hardening)},
		{"guest shielded", yes(c.Shielded)},
		{"ending a tree", console.OrDash(string(c.KillTree))},
		{"survives a lost connection", yes(c.Resume)},
	}
	for line := range strings.SplitSeq(c.Missing, "\n") {
		if line != "" {
			rows = append(rows, []string{"missing", line})
		}
	}
	return rows
}

// infoSettings prints every setting, its value and its source; what is wrong has its
// default, and is said.
func (a *app) infoSettings() error {
	for _, err := range a.Wrong {
		a.Note("info: %v", err)
	}
	rows := [][]string{{"SETTING", "VALUE", "FROM", "VARIABLE", "FLAG"}}
	for _, v := range a.Config.Values {
		flag := v.Flag
		if flag != "" {
			flag = "--" + flag
		}
		if a.JSON {
			if err := a.Print(map[string]string{"setting": v.Key, "value": v.Text, "from": v.Source, "variable": v.Env, "flag": flag, "help": v.Help}); err != nil {
				return err
			}
			continue
		}
		rows = append(rows, []string{v.Key, console.OrDash(v.Text), v.Source, console.OrDash(v.Env), console.OrDash(flag)})
	}
	if a.JSON {
		return nil
	}
	return a.Table(rows)
}
