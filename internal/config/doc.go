// Package config resolves the settings of the berth program: flags over
// environment over the configuration file over defaults. It is the only package
// that reads the environment.
//
// # Sources
//
// The file is TOML, at $BERTH_CONFIG or $XDG_CONFIG_HOME/berth/config.toml (that is
// ~/.config/berth/config.toml). A default file that does not exist is no error; one
// that was named is. An empty environment variable counts as unset. A source that
// sets something replaces what the sources below it say, except that hidden paths
// add up: no source uncovers what another one hides.
//
// # Errors
//
// Nothing is guessed: an unknown key of the file, and a malformed value from any
// source, fail the start with CodeInvalid and name the key, and for the file its
// line. One table, Settings, holds all that can be set; help texts and documentation
// are derived from it.
//
// Load is pure: it reads what it is given and nothing else.
package config
