package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/berth-dev/berth/spec"
)

func ignore(*Config, []string) error { return nil }

// one takes the only value of a setting; of a flag given twice, the last.
func one(texts []string) string { return texts[len(texts)-1] }

func text(field *string, texts []string) error {
	if strings.IndexByte(one(texts), 0) >= 0 {
		return errors.New("it holds a NUL byte")
	}
	*field = one(texts)
	return nil
}

// name takes the name of a backend; whether there is such a one is for the
// registry to say.
func name(field *string, texts []string) error {
	for _, r := range one(texts) {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' {
			return fmt.Errorf("%q is not a name: want lower-case letters, digits and '-'", one(texts))
		}
	}
	*field = one(texts)
	return nil
}

func key(field *string, texts []string) error {
	if err := spec.ValidateKey(spec.Key(one(texts))); err != nil {
		return fmt.Errorf("%q is not a name: want letters, digits, '.', '_' and '-', at most %d", one(texts), spec.MaxKeyBytes)
	}
	*field = one(texts)
	return nil
}

func isolation(c *Config, texts []string) error {
	level := spec.Isolation(one(texts))
	if level != "" && spec.IsolationSet(level) == 0 {
		return fmt.Errorf("%q is not a level: want none, guard, jail, standard or strict", one(texts))
	}
	c.Isolation = level
	return nil
}

func network(c *Config, texts []string) error {
	policy := spec.Network(one(texts))
	if policy != "" && spec.NetworkSet(policy) == 0 {
		return fmt.Errorf("%q is not a policy: want none, limited or open", one(texts))
	}
	c.Network = policy
	return nil
}

func timeout(c *Config, texts []string) error {
	d, err := time.ParseDuration(one(texts))
	switch {
	case err != nil || d < 0:
		return fmt.Errorf("%q is not a duration: want 30s, 5m or 1h, or 0 for no limit", one(texts))
	case d > MaxTimeout:
		return fmt.Errorf("%v is too long: want at most %v, or 0 for no limit", d, MaxTimeout)
	}
	c.Timeout = d
	return nil
}

func noOutputTimeout(c *Config, texts []string) error {
	d, err := time.ParseDuration(one(texts))
	if err != nil || d < 0 {
		return fmt.Errorf("%q is not a duration: want 30s, 5m or 1h, or 0 for no limit", one(texts))
	}
	c.NoOutputTimeout = d
	return nil
}

func jobOwner(c *Config, texts []string) error {
	c.JobOwner = one(texts)
	if err := spec.ValidateOwner(c.JobOwner); err != nil {
		return fmt.Errorf("%q is not a name: want letters, digits, '.', '_' and '-', at most %d", c.JobOwner, spec.MaxOwnerBytes)
	}
	return nil
}

// buildKit reads what the docker command takes for a boolean too.
func buildKit(c *Config, texts []string) error {
	on, err := strconv.ParseBool(one(texts))
	if err != nil {
		return fmt.Errorf("%q is neither true nor false", one(texts))
	}
	c.Docker.BuildKit = &on
	return nil
}

func engineHost(field *string, texts []string) error {
	scheme, rest, ok := strings.Cut(one(texts), "://")
	if !ok || scheme == "" || rest == "" {
		return fmt.Errorf("%q is not an engine's address: want unix:///path, tcp://host:port or ssh://user@host", one(texts))
	}
	*field = one(texts)
	return nil
}

func boolean(field *bool, texts []string) error {
	switch one(texts) {
	case "true":
		*field = true
	case "false":
		*field = false
	default:
		return fmt.Errorf("%q is neither true nor false", one(texts))
	}
	return nil
}

// secrets adds the names of variables.
func secrets(c *Config, texts []string) error {
	for _, name := range texts {
		if spec.ValidateEnv(map[string]string{name: ""}) != nil {
			return fmt.Errorf("%q is no name of a variable", name)
		}
	}
	c.Secrets = append(c.Secrets, texts...)
	return nil
}

// namedSecrets adds the names that a flag has.
func namedSecrets(c *Config, texts []string) error {
	if err := secrets(c, texts); err != nil {
		return err
	}
	c.NamedSecrets = texts
	return nil
}
