package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/spec"
)

// Container is what a container gets from outside: the settings that a spec alone has.
type Container struct {
	Mounts      []spec.Mount // sources of flags as given
	Ports       []spec.PublishedPort
	NetworkMode string
	Labels      map[string]string
}

// mounts takes SOURCE:TARGET, with :ro or :shared. A source may hold colons, a target none.
func mounts(c *Config, texts []string) error {
	c.Container.Mounts = nil
	for _, text := range texts {
		var m spec.Mount
		rest := text
		if front, ok := strings.CutSuffix(rest, ":ro"); ok {
			rest, m.ReadOnly = front, true
		} else if front, ok := strings.CutSuffix(rest, ":shared"); ok {
			rest, m.Shared = front, true
		}
		i := strings.LastIndexByte(rest, ':')
		if i <= 0 || !strings.HasPrefix(rest[i+1:], "/") {
			return fmt.Errorf("%q is no mount: want SOURCE:/TARGET, with :ro or :shared", text)
		}
		m.Source, m.Target = rest[:i], rest[i+1:]
		c.Container.Mounts = append(c.Container.Mounts, m)
	}
	return nil
}

// ports takes [ADDRESS:][HOST:]PORT[/PROTOCOL]; an IPv6 address is in brackets.
func ports(c *Config, texts []string) error {
	c.Container.Ports = nil
	for _, text := range texts {
		p, err := port(text)
		if err != nil {
			return err
		}
		c.Container.Ports = append(c.Container.Ports, p)
	}
	return nil
}

func port(text string) (spec.PublishedPort, error) {
	wrong := fmt.Errorf("%q is no port to publish: want PORT, HOST:PORT or ADDRESS:HOST:PORT, with /udp if need be", text)
	var p spec.PublishedPort
	rest, protocol, _ := strings.Cut(text, "/")
	p.Protocol = spec.Protocol(protocol)
	fields := []string{rest}
	if i := strings.LastIndexByte(rest, ':'); i >= 0 {
		fields = []string{rest[i+1:], rest[:i]}
		if j := strings.LastIndexByte(rest[:i], ':'); j >= 0 {
			fields = []string{rest[i+1:], rest[j+1 : i], rest[:j]}
		}
	}
	for i, field := range fields {
		switch {
		case i == 2:
			p.Address = strings.Trim(field, "[]")
		case i == 1 && field == "":
			// The engine chooses.
		default:
			n, err := strconv.ParseUint(field, 10, 16)
			if err != nil {
				return p, wrong
			}
			if i == 0 {
				p.Container = int(n)
			} else {
				p.Host = int(n)
			}
		}
	}
	if (&spec.Spec{Network: spec.NetworkOpen, Ports: []spec.PublishedPort{p}}).Validate() != nil {
		return p, wrong
	}
	return p, nil
}

func networkMode(c *Config, texts []string) error {
	mode := one(texts)
	if (&spec.Spec{Network: spec.NetworkOpen, NetworkMode: mode}).Validate() != nil {
		return fmt.Errorf("%q is no network: want host, container:ID or the name of one that the engine has", mode)
	}
	c.Container.NetworkMode = mode
	return nil
}

// labels takes NAME=VALUE, or NAME.
func labels(c *Config, texts []string) error {
	set := map[string]string{}
	for _, text := range texts {
		name, value, _ := strings.Cut(text, "=")
		set[name] = value
	}
	if err := (&spec.Spec{Labels: set}).Validate(); err != nil {
		return err
	}
	c.Container.Labels = set
	return nil
}

func diskBytes(c *Config, texts []string) error {
	var n *int64
	err := limit(&n, one(texts), math.MaxInt64)
	c.Sandbox.DiskBytes = valueOr(n, 0)
	return err
}

// disk takes bytes, or a number with k, m, g or t in powers of 1024.
func disk(c *Config, texts []string) error {
	n, err := size(one(texts))
	if err == nil {
		c.Sandbox.DiskBytes = *n
	}
	return err
}

// gpus takes a number, or all.
func gpus(c *Config, texts []string) error {
	if one(texts) == "all" {
		c.Sandbox.GPUs = -1
		return nil
	}
	n, err := strconv.ParseUint(one(texts), 10, 15)
	if err != nil {
		return fmt.Errorf("%q is no number of GPUs: want one, or all", one(texts))
	}
	c.Sandbox.GPUs = int(n)
	return nil
}

// seccomp reads a profile: what a spec holds is its content.
func seccomp(c *Config, texts []string) error {
	name := one(texts)
	data, err := c.readFile(name)
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(name), cause(err))
	}
	profile := spec.Spec{Hardening: spec.Hardening{Seccomp: string(bytes.TrimSpace(data))}}
	if err := profile.Validate(); err != nil || !json.Valid(data) {
		return errors.New("it holds no seccomp profile: want a JSON object with a defaultAction")
	}
	c.Sandbox.Seccomp = profile.Hardening.Seccomp
	return nil
}
