package console

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berth-dev/berth/spec"
)

// patience is how long a step may take before it is shown; where there is no terminal
// the state of a long one is told again after twice the time each time, up to rarely.
const (
	patience = time.Second
	rarely   = 30 * time.Second

	// maxParts is how many parts of a step are remembered, maxBars how many are shown.
	maxParts = 256
	maxBars  = 8
)

// Progress shows what takes long: one line that changes on a terminal, with one more for
// each part that is under way; a line for each step elsewhere; nothing with Quiet or JSON.
type Progress struct {
	c    *Console
	live bool // stderr is a terminal

	poll func() spec.Progress // nil: Report tells

	mu    sync.Mutex
	now   spec.Progress
	since time.Time
	parts []spec.Progress // of the present step

	// Of the watching goroutine.
	shown string // the step that was last printed as a line
	again time.Time
	pause time.Duration
	drawn int // how many lines are on the terminal that change

	done, gone chan struct{}
}

// Progress begins to watch what message says. The caller calls Stop. Where stderr is
// no terminal, only the steps that are reported are worth a line of it.
func (c *Console) Progress(message string) *Progress {
	return c.start(&Progress{now: spec.Progress{Message: message}})
}

// Poll is Progress of one step that is asked how far it is; now may be called from
// another goroutine until Stop returns.
func (c *Console) Poll(now func() spec.Progress) *Progress {
	return c.start(&Progress{poll: now})
}

func (c *Console) start(p *Progress) *Progress {
	p.c, p.live, p.since = c, Terminal(c.Stderr), time.Now()
	p.done, p.gone = make(chan struct{}), make(chan struct{})
	if c.Quiet || c.JSON {
		close(p.gone)
		return p
	}
	go p.watch()
	return p
}

// Report takes the next step, or how far the present one is; it has the form of
// ProvisionOptions.Progress.
func (p *Progress) Report(next spec.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if next.Step != p.now.Step {
		p.since, p.parts = time.Now(), nil
	}
	p.now = next
	if next.Part != "" {
		p.addPart(next)
	}
}

// addPart takes in how far a part is, and makes the step the sum of its parts.
func (p *Progress) addPart(next spec.Progress) {
	i := slices.IndexFunc(p.parts, func(part spec.Progress) bool { return part.Part == next.Part })
	switch {
	case i < 0 && len(p.parts) == maxParts:
		return
	case i < 0:
		i, p.parts = len(p.parts), append(p.parts, next)
	case next.Total == 0: // it is over, or waits: what is known of its size stays
		next.Done, next.Total = p.parts[i].Total, p.parts[i].Total
	}
	p.parts[i] = next
	p.now = spec.Progress{Step: next.Step, Message: fmt.Sprintf("%d parts", len(p.parts))}
	for _, part := range p.parts {
		p.now.Done += part.Done
		p.now.Total += part.Total
	}
}

// Stop takes the line off the terminal. It may be called again.
func (p *Progress) Stop() {
	select {
	case <-p.done:
		return
	default:
	}
	close(p.done)
	<-p.gone
}

func (p *Progress) watch() {
	defer close(p.gone)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for frame := 0; ; frame++ {
		select {
		case <-p.done:
			p.erase()
			return
		case now := <-tick.C:
			p.draw(frame, now)
		}
	}
}

func (p *Progress) draw(frame int, at time.Time) {
	p.mu.Lock()
	now, age, parts := p.now, time.Since(p.since), slices.Clone(p.parts)
	p.mu.Unlock()
	if age < patience {
		return
	}
	if p.poll != nil {
		now = p.poll()
	}
	if p.live {
		spinner := [...]string{"|", "/", "-", `\`}
		p.erase()
		p.drawn = 1
		fmt.Fprintf(p.c.Stderr, "berth: %s %s %s", spinner[frame%len(spinner)], describe(now), Short(age.Truncate(time.Second)))
		for _, part := range parts {
			if part.Done < part.Total && p.drawn <= maxBars {
				p.drawn++
				part.Step = part.Part
				fmt.Fprintf(p.c.Stderr, "\n  %s", describe(part))
			}
		}
		return
	}
	step := now.Step
	if now.Total <= 0 {
		step += now.Message // without an end, what is being done is all there is to tell
	}
	switch {
	case now.Step == "":
	case step != p.shown:
		p.shown, p.pause, p.again = step, patience, at.Add(patience)
		p.c.Note("%s", describe(now))
	case now.Total > 0 && !at.Before(p.again):
		p.pause = min(2*p.pause, rarely)
		p.again = at.Add(p.pause)
		p.c.Note("%s", describe(now))
	}
}

// erase takes the changing lines off the terminal.
func (p *Progress) erase() {
	if p.drawn > 0 {
		fmt.Fprint(p.c.Stderr, "\r"+strings.Repeat("\x1b[A", p.drawn-1)+"\x1b[J")
	}
	p.drawn = 0
}

// describe says a step in words, with a bar where the end is known.
func describe(now spec.Progress) string {
	text := now.Step
	if now.Message != "" {
		text = strings.TrimPrefix(text+": "+now.Message, ": ")
	}
	if now.Total <= 0 {
		return Clean(text)
	}
	const width = 20
	part := float64(min(max(now.Done, 0), now.Total)) / float64(now.Total)
	filled := int(width * part)
	return fmt.Sprintf("%s [%s%s] %d%%", Clean(text), strings.Repeat("#", filled), strings.Repeat(".", width-filled), int(100*part))
}
