package buildkit

// trace is one message of type moby.buildkit.v1.StatusResponse, as far as it is of use.
// Its texts are what the engine, a Dockerfile or a command in a build says: untrusted.
type trace struct {
	vertexes []vertex
	statuses []status
	logs     []output
	warnings []string
}

// vertex is a step of a build, as it is now.
type vertex struct {
	digest, name, err      string
	cached, started, ended bool
}

// status is how far something is that is part of a step.
type status struct {
	id, state   string
	done, total int64
}

// output is what a step has written.
type output struct {
	vertex string
	data   []byte
}

// parseTrace reads a message. Fields that it does not know, which newer engines may send,
// are passed over; what is no message is an error.
func parseTrace(message []byte) (trace, error) {
	var t trace
	err := fields(message, func(f field) error {
		switch f.number {
		case 1, 2, 3, 4:
			if err := f.expect(length); err != nil {
				return err
			}
		}
		switch f.number {
		case 1:
			var v vertex
			err := v.parse(f.data)
			t.vertexes = append(t.vertexes, v)
			return err
		case 2:
			var s status
			err := s.parse(f.data)
			t.statuses = append(t.statuses, s)
			return err
		case 3:
			var o output
			err := o.parse(f.data)
			t.logs = append(t.logs, o)
			return err
		case 4:
			text, err := parseWarning(f.data)
			t.warnings = append(t.warnings, text)
			return err
		}
		return nil
	})
	return t, err
}

func (v *vertex) parse(message []byte) error {
	return fields(message, func(f field) error {
		switch f.number {
		case 1:
			return f.text(&v.digest)
		case 3:
			return f.text(&v.name)
		case 4:
			v.cached = f.value != 0
			return f.expect(varint)
		case 5:
			v.started = true
			return f.expect(length)
		case 6:
			v.ended = true
			return f.expect(length)
		case 7:
			return f.text(&v.err)
		}
		return nil
	})
}

func (s *status) parse(message []byte) error {
	return fields(message, func(f field) error {
		switch f.number {
		case 1:
			return f.text(&s.id)
		case 3:
			return f.text(&s.state)
		case 4:
			s.done = int64(f.value)
			return f.expect(varint)
		case 5:
			s.total = int64(f.value)
			return f.expect(varint)
		}
		return nil
	})
}

func (o *output) parse(message []byte) error {
	return fields(message, func(f field) error {
		switch f.number {
		case 1:
			return f.text(&o.vertex)
		case 4:
			o.data = f.data
			return f.expect(length)
		}
		return nil
	})
}

// parseWarning returns the short form of a warning.
func parseWarning(message []byte) (text string, err error) {
	err = fields(message, func(f field) error {
		if f.number == 3 {
			return f.text(&text)
		}
		return nil
	})
	return text, err
}
