package verb

import (
	"github.com/berth-dev/berth/backend/all"
	"github.com/berth-dev/berth/driver"
	"github.com/berth-dev/berth/spec"
)

// Each does something with the backend that --backend names, which has to answer, or else
// with every backend that is able to and answers. A failure on one does not keep it from the
// others. doing is the verb, for what is told of a backend that does not answer.
func (e *Env) Each(doing string, able func(driver.Driver) bool, do func(driver.Driver) error) error {
	if e.Config.Given("backend") {
		d, _, err := e.Open()
		if err != nil {
			return err
		}
		return do(d)
	}
	var failed Errors
	for _, b := range e.Registry.Backends() {
		d, err := OpenOne(b)
		if err != nil {
			e.Detail("%s: %s: %v", doing, b.Name, err)
			continue
		}
		if !able(d) {
			continue
		}
		err = do(d)
		switch {
		case spec.CodeOf(err) == spec.CodeUnavailable && b.Name != e.Config.Backend:
			e.Unanswered(doing, b, err)
		case err != nil:
			failed = append(failed, err)
		}
	}
	return failed.orNil()
}

// Unanswered tells of a backend that a verb goes on without: always if it is the one that is
// used without a flag, or somebody has said where it is, else only if details are wanted.
func (e *Env) Unanswered(doing string, b all.Backend, err error) {
	say := e.Detail
	if b.Name == e.Config.Backend || e.Config.Located(b.Name) {
		say = e.Note
	}
	say("%s: %s does not answer: %v", doing, b.Name, err)
}
