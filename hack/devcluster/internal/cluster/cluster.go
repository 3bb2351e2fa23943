// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package cluster names a development cluster: its settings, and the places
// on disk where its state is kept.
package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"
)

// Defaults of a new cluster.
const (
	DefaultName         = "zi"
	DefaultNodes        = 3
	DefaultAPIPort      = 16443
	DefaultGracePeriod  = 10 * time.Second
	DefaultStatusPeriod = 2 * time.Second
	// MaxNodes is bounded by the address plan (one byte per node).
	MaxNodes = 50
	// DefaultBase is the folder that holds one folder per cluster.
	DefaultBase = "/var/lib/zeroinfra/devcluster"
)

// Settings are what a person can choose about a cluster. They are kept with
// the cluster, so that a later "up" without flags means the same cluster.
type Settings struct {
	// Nodes is the number of nodes, 1 to MaxNodes.
	Nodes int `json:"nodes"`
	// APIPort is the port on the host's loopback that leads to the API server.
	APIPort int `json:"apiPort"`
	// GracePeriod is how long a silent node stays Ready.
	GracePeriod time.Duration `json:"gracePeriod"`
	// StatusPeriod is how often a node reports that it lives.
	StatusPeriod time.Duration `json:"statusPeriod"`
	// Addons are the optional add-ons that the cluster has.
	Addons []string `json:"addons,omitempty"`
}

// Defaults returns the settings of a new cluster.
func Defaults() Settings {
	return Settings{
		Nodes: DefaultNodes, APIPort: DefaultAPIPort,
		GracePeriod: DefaultGracePeriod, StatusPeriod: DefaultStatusPeriod,
	}
}

// Validate says what is wrong with the settings.
func (s Settings) Validate() error {
	switch {
	case s.Nodes < 1 || s.Nodes > MaxNodes:
		return fmt.Errorf("cannot make %d nodes: choose 1 to %d with --nodes", s.Nodes, MaxNodes)
	case s.APIPort < 1 || s.APIPort > 65535:
		return fmt.Errorf("cannot use port %d: choose 1 to 65535 with --api-port", s.APIPort)
	case s.StatusPeriod < time.Second:
		return fmt.Errorf("cannot report node status every %s: choose 1s or more with --node-status-period", s.StatusPeriod)
	case s.GracePeriod < 2*s.StatusPeriod:
		return fmt.Errorf("cannot use a grace period of %s: it must be at least twice the status period of %s", s.GracePeriod,
			s.StatusPeriod)
	}
	return nil
}

// Cluster is a cluster's name and the folder of its state.
type Cluster struct {
	// Name tells clusters on the same machine apart.
	Name string
	// Dir holds everything the cluster keeps on disk.
	Dir string
}

var nameRE = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,18}[a-z0-9])?$`)

// New checks a name and returns the cluster below base.
func New(base, name string) (Cluster, error) {
	if !nameRE.MatchString(name) {
		return Cluster{}, fmt.Errorf("cannot use cluster name %q: use 1 to 20 lower-case letters, digits and inner dashes, "+
			"starting with a letter", name)
	}
	if !filepath.IsAbs(base) {
		return Cluster{}, fmt.Errorf("cannot use state folder %q: give an absolute path", base)
	}
	return Cluster{Name: name, Dir: filepath.Join(base, name)}, nil
}

// Path joins elements below the cluster's folder.
func (c Cluster) Path(elements ...string) string {
	return filepath.Join(append([]string{c.Dir}, elements...)...)
}

// Kubeconfig is the administrator's kubeconfig for use on the host.
func (c Cluster) Kubeconfig() string { return c.Path("kubeconfig") }

// InnerKubeconfig is the administrator's kubeconfig for use inside the
// cluster's network.
func (c Cluster) InnerKubeconfig() string { return c.Path("kubeconfig-inner") }

// AuditLog is the file of the API server's audit records.
func (c Cluster) AuditLog() string { return c.Path(ControlPlane, "var/log/audit/audit.log") }

// Resolv is a resolver configuration that asks the cluster's DNS.
func (c Cluster) Resolv() string { return c.Path("resolv.conf") }

// ControlPlane is the name of the machine that runs the control plane.
const ControlPlane = "cp"

// NodeName returns the name of the i-th node, counting from 1.
func NodeName(i int) string { return fmt.Sprintf("n%d", i) }

// NodeNames returns the names of all nodes.
func (s Settings) NodeNames() []string {
	names := make([]string, s.Nodes)
	for i := range names {
		names[i] = NodeName(i + 1)
	}
	return names
}

// ErrAbsent says that there is no such cluster.
var ErrAbsent = errors.New("no such cluster")

// Load reads the settings kept with the cluster. The error wraps ErrAbsent
// when the cluster has none.
func (c Cluster) Load() (Settings, error) {
	data, err := os.ReadFile(c.Path("settings.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return Settings{}, fmt.Errorf("cannot find cluster %q in %q: run \"devcluster up\" first: %w", c.Name, c.Dir,
			ErrAbsent)
	}
	if err != nil {
		return Settings{}, fmt.Errorf("cannot read settings of cluster %q: %w", c.Name, err)
	}
	var s Settings
	if err := json.Unmarshal(data, &s); err != nil {
		return Settings{}, fmt.Errorf("cannot read settings of cluster %q in %q: %w", c.Name, c.Path("settings.json"), err)
	}
	return s, nil
}

// Save keeps the settings with the cluster.
func (c Cluster) Save(s Settings) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return WriteFile(c.Path("settings.json"), append(data, '\n'), 0o600)
}

// WriteFile replaces a file at once, making its folder when it is missing,
// and leaves a file that has the same content and mode alone.
func WriteFile(path string, data []byte, mode os.FileMode) error {
	if old, err := os.ReadFile(path); err == nil && string(old) == string(data) {
		if info, err := os.Stat(path); err == nil && info.Mode().Perm() == mode {
			return nil
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("cannot create folder of %q: %w", path, err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".new-")
	if err != nil {
		return fmt.Errorf("cannot write %q: %w", path, err)
	}
	defer os.Remove(tmp.Name())
	if _, err := tmp.Write(data); err != nil {
		tmp.Close()
		return fmt.Errorf("cannot write %q: %w", path, err)
	}
	if err := tmp.Chmod(mode); err != nil {
		tmp.Close()
		return fmt.Errorf("cannot set mode of %q: %w", path, err)
	}
	if err := tmp.Close(); err != nil {
		return fmt.Errorf("cannot write %q: %w", path, err)
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return fmt.Errorf("cannot replace %q: %w", path, err)
	}
	return nil
}
