//go:build linux

package drop

// BeginAgain is the way of a program with C in it.
func (id Identity) BeginAgain(own, environ []string) error {
	for _, dir := range own {
		if err := id.give(dir); err != nil {
			return err
		}
	}
	return id.beginAgain(environ)
}
