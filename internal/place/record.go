package place

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/berth-dev/berth/internal/wire"
	"github.com/berth-dev/berth/spec"
)

// recordVersion is the format of record.json; another one is not read.
const recordVersion = 1

// maxRecordBytes bounds what is read of a record.
const maxRecordBytes = 1 << 20

// Record is what is kept about a place. It holds no environment: values may be
// secrets.
type Record struct {
	ID       string   `json:"id"`
	Key      spec.Key `json:"key"`
	Owner    string   `json:"owner"`
	SpecHash string   `json:"spec_hash"`
	// SpecParts say which fields of another spec differ.
	SpecParts map[string]string `json:"spec_parts,omitempty"`
	Ephemeral bool              `json:"ephemeral,omitempty"`

	// PID and StartTicks identify the guest's process as this machine sees it,
	// within the boot that BootID names. PID 0: it is not known to run.
	PID        int    `json:"pid,omitempty"`
	StartTicks uint64 `json:"start_ticks,omitempty"`
	BootID     string `json:"boot_id,omitempty"`
	// PIDNamespace is where that pid is one; 0: where the reader is.
	PIDNamespace uint64 `json:"pid_namespace,omitempty"`
	// WrapperPID and WrapperTicks identify the process that keeps the wall
	// around the guest and ends with it; 0 where there is none.
	WrapperPID   int    `json:"wrapper_pid,omitempty"`
	WrapperTicks uint64 `json:"wrapper_ticks,omitempty"`

	// DropUID is the user that the guest became, 0: none but the one that started it.
	DropUID int `json:"drop_uid,omitempty"`

	// Limits are those of the spec, Groups the directories of the control group that
	// enforces them; of one that has no Groups they are found by their name.
	Limits spec.Limits `json:"limits,omitzero"`
	Groups []string    `json:"groups,omitempty"`

	// Workdir is the resolved working directory; OwnWorkdir says that it lies
	// in the place's directory and is removed with it.
	Workdir    string         `json:"-"`
	OwnWorkdir bool           `json:"own_workdir,omitempty"`
	Isolation  spec.Isolation `json:"isolation,omitempty"`
	Network    spec.Network   `json:"network,omitempty"`
	// Writable and Hidden are what the wall round the guest lets commands write
	// and hides from them, Sealed the mount points on which it stands; empty where
	// there is no wall.
	Writable, Hidden, Sealed []string `json:"-"`
	// Absent are names that programs outside would run or obey, and that did not exist
	// when the guest was started.
	Absent  []string  `json:"-"`
	Created time.Time `json:"created"`
	// IdleTimeout and TTL are as provisioned; the guest enforces them.
	IdleTimeout time.Duration `json:"idle_timeout_ns,omitempty"`
	TTL         time.Duration `json:"ttl_ns,omitempty"`
	// Epoch is the owner's epoch at the last start.
	Epoch  uint64 `json:"epoch,omitempty"`
	Notice string `json:"notice,omitempty"`

	// Fresh is set by Provision where this very call made the place, Started
	// where it started the guest: whoever cannot use it then calls Discard.
	Fresh   bool `json:"-"`
	Started bool `json:"-"`
}

// recordJSON is a Record as it is written. A path is bytes, so it travels as such.
type recordJSON struct {
	Version  int          `json:"version"`
	Workdir  wire.Bytes   `json:"workdir"`
	Writable []wire.Bytes `json:"writable,omitempty"`
	Hidden   []wire.Bytes `json:"hidden,omitempty"`
	Sealed   []wire.Bytes `json:"sealed,omitempty"`
	Absent   []wire.Bytes `json:"absent,omitempty"`
	*plainRecord
}

type plainRecord Record

// MarshalJSON implements json.Marshaler.
func (r Record) MarshalJSON() ([]byte, error) {
	return json.Marshal(recordJSON{recordVersion, wire.Bytes(r.Workdir), toBytes(r.Writable), toBytes(r.Hidden), toBytes(r.Sealed), toBytes(r.Absent), (*plainRecord)(&r)})
}

// UnmarshalJSON implements json.Unmarshaler. It refuses what no Berth has written.
func (r *Record) UnmarshalJSON(data []byte) error {
	var plain plainRecord
	in := recordJSON{plainRecord: &plain}
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	if in.Version != recordVersion {
		return fmt.Errorf("record version %d, want %d", in.Version, recordVersion)
	}
	plain.Workdir, plain.Writable, plain.Hidden, plain.Sealed = string(in.Workdir), toStrings(in.Writable), toStrings(in.Hidden), toStrings(in.Sealed)
	plain.Absent = toStrings(in.Absent)
	if !validID(plain.ID) || !filepath.IsAbs(plain.Workdir) || min(plain.PID, plain.WrapperPID, plain.DropUID) < 0 {
		return fmt.Errorf("record out of range")
	}
	if err := spec.ValidateKey(plain.Key); err != nil {
		return err
	}
	*r = Record(plain)
	return nil
}

func toBytes(in []string) []wire.Bytes {
	var out []wire.Bytes
	for _, s := range in {
		out = append(out, wire.Bytes(s))
	}
	return out
}

func toStrings(in []wire.Bytes) []string {
	var out []string
	for _, b := range in {
		out = append(out, string(b))
	}
	return out
}

// note adds what a person should know, and reports whether it is new.
func (r *Record) note(text string) bool {
	if text == "" || strings.Contains(r.Notice, text) {
		return false
	}
	r.Notice = strings.TrimPrefix(r.Notice+"; "+text, "; ")
	return true
}

const (
	idPrefix = "sb_"
	idDigits = 16
)

// ID returns the id of the place that owner has under key.
func ID(owner string, key spec.Key) string {
	sum := sha256.Sum256([]byte(owner + "\x00" + string(key)))
	return idPrefix + hex.EncodeToString(sum[:idDigits/2])
}

// validID guards every use of an id as the name of a directory.
func validID(id string) bool {
	digits, ok := strings.CutPrefix(id, idPrefix)
	return ok && len(digits) == idDigits && strings.Trim(digits, "0123456789abcdef") == ""
}
