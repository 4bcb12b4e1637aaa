package cli

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/berth-dev/berth/spec"
)

// patience is how long a step may take before it is shown.
const patience = time.Second

// progress shows what takes long: one line that changes on a terminal, a line for
// each step elsewhere, nothing with --quiet or --json.
type progress struct {
	a    *app
	live bool // stderr is a terminal

	mu    sync.Mutex
	now   spec.Progress
	since time.Time
	shown string // the last step that was printed as a line
	drawn bool   // the changing line is on the terminal

	done, gone chan struct{}
}

// progress begins to watch what message says. The caller calls stop. Where stderr is
// no terminal, only the steps that are reported are worth a line of it.
func (a *app) progress(message string) *progress {
	p := &progress{
		a: a, live: terminal(a.stderr), done: make(chan struct{}), gone: make(chan struct{}),
		now: spec.Progress{Message: message}, since: time.Now(),
	}
	if a.quiet || a.json {
		close(p.gone)
		return p
	}
	go p.watch()
	return p
}

// report takes the next step; it has the form of ProvisionOptions.Progress.
func (p *progress) report(next spec.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if next.Step != p.now.Step {
		p.since = time.Now()
	}
	p.now = next
}

// stop takes the line off the terminal.
func (p *progress) stop() {
	select {
	case <-p.done:
		return
	default:
	}
	close(p.done)
	<-p.gone
}

func (p *progress) watch() {
	defer close(p.gone)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for frame := 0; ; frame++ {
		select {
		case <-p.done:
			if p.drawn {
				fmt.Fprint(p.a.stderr, "\r\x1b[K")
			}
			return
		case <-tick.C:
			p.draw(frame)
		}
	}
}

func (p *progress) draw(frame int) {
	p.mu.Lock()
	now, age := p.now, time.Since(p.since)
	p.mu.Unlock()
	if age < patience {
		return
	}
	text := describeStep(now)
	if p.live {
		spinner := [...]string{"|", "/", "-", `\`}
		p.drawn = true
		fmt.Fprintf(p.a.stderr, "\r\x1b[Kberth: %s %s %s", spinner[frame%len(spinner)], text, short(age.Truncate(time.Second)))
		return
	}
	if step := now.Step + now.Message; now.Step != "" && step != p.shown {
		p.shown = step
		p.a.note("%s", text)
	}
}

// describeStep says a step in words, with a bar where the end is known.
func describeStep(now spec.Progress) string {
	text := now.Step
	if now.Message != "" {
		text = strings.TrimPrefix(text+": "+now.Message, ": ")
	}
	if now.Total <= 0 {
		return clean(text)
	}
	const width = 20
	filled := int(min(max(now.Done, 0), now.Total) * width / now.Total)
	return fmt.Sprintf("%s [%s%s] %d%%", clean(text), strings.Repeat("#", filled), strings.Repeat(".", width-filled), filled*100/width)
}
