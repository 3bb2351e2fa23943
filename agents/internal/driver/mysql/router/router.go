// SPDX-License-Identifier: Apache-2.0

// Package router starts a MySQL Router before the members of a group. It gets to know them by views that each of them
// has (mysql.RouterLines), and has no state of its own.
package router

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/zeroinfra/agents/internal/atomicfile"
	"github.com/zeroinfra/agents/internal/driver/mysql/server"
	"github.com/zeroinfra/agents/internal/listenaddress"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// VersionFile, in the folder that the containers of the pod share, says which version runs.
const VersionFile = "mysqlrouter.version"

// StateFile, in the same folder, has the members that the Router has read last.
const StateFile = "mysqlrouter.state.json"

const (
	// configFile of the Router is beside its parameters.
	configFile = "mysqlrouter.conf"
	// selfSignedFor is how long a certificate lasts that is made here: processes do not live as long.
	selfSignedFor = 10 * 365 * 24 * time.Hour
	private       = 0o600
	keyBits       = 2048
)

// Router is one in its pod.
type Router struct {
	// Program is mysqlrouter, KeyringProgram the one that writes its passwords, and PasswordProgram the one that writes
	// those of who asks it by its REST API.
	Program, KeyringProgram, PasswordProgram string
	// Parameters is a file of its parameters as a JSON object; what is made of them is beside it.
	Parameters string
	// Run is the folder that the containers of the pod share, Secrets has a folder for each credential, and Certificates
	// has tls.crt and tls.key where CAFile is said.
	Run, Secrets, Certificates string
	// Plugins is the folder of its plugins; its own when empty.
	Plugins string
	// Members are all members that there may be: host and port.
	Members []string
	// CAFile is what the certificates of the members lead to; empty without TLS.
	CAFile string
}

// Start writes what the Router reads, and becomes it.
func (r *Router) Start(ctx context.Context) error {
	program, err := exec.LookPath(r.Program)
	if err != nil {
		return err
	}
	if err := r.Prepare(ctx); err != nil {
		return err
	}
	return syscall.Exec(program, append([]string{program}, r.Arguments()...), os.Environ())
}

// Arguments of the Router.
func (r *Router) Arguments() []string { return []string{"--config", r.config()} }

// Prepare does all that comes before the Router.
func (r *Router) Prepare(ctx context.Context) error {
	parameters := map[string]string{}
	data, err := os.ReadFile(r.Parameters)
	if err == nil {
		err = json.Unmarshal(data, &parameters)
	}
	if err != nil {
		return fmt.Errorf("cannot read the parameters: %w", err)
	}
	if r.CAFile == "" {
		if err := r.selfSign(); err != nil {
			return err
		}
	}
	members, err := r.members()
	if err != nil {
		return err
	}
	return errors.Join(r.writeVersion(ctx), r.writePasswords(ctx), os.WriteFile(r.state(), members, private),
		os.WriteFile(r.config(), []byte(r.text(parameters, listenaddress.Any())), private))
}

func (r *Router) config() string    { return r.beside(configFile) }
func (r *Router) state() string     { return filepath.Join(r.Run, StateFile) }
func (r *Router) keyring() string   { return r.beside("mysqlrouter.keyring") }
func (r *Router) masterKey() string { return r.beside("mysqlrouter.master-key") }
func (r *Router) accounts() string  { return r.beside("mysqlrouter.accounts") }

func (r *Router) beside(name string) string { return filepath.Join(filepath.Dir(r.Parameters), name) }

// certificate and key are what clients are shown.
func (r *Router) certificate() string { return r.pair(plan.CertificateFile) }
func (r *Router) key() string         { return r.pair(plan.KeyFile) }

func (r *Router) pair(name string) string {
	if r.CAFile == "" {
		return r.beside(name)
	}
	return filepath.Join(r.Certificates, name)
}

// versionForm finds the version in what the program says.
var versionForm = regexp.MustCompile(`Ver ([0-9]+[.][0-9]+[.][0-9]+)`)

func (r *Router) writeVersion(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, r.Program, "--version").Output()
	found := versionForm.FindSubmatch(out)
	if err != nil || found == nil {
		return fmt.Errorf("%s does not say its version: %q, %w", r.Program, out, err)
	}
	return os.WriteFile(filepath.Join(r.Run, VersionFile), append(found[1], '\n'), 0o644)
}

// writePasswords has the password of the account for members where the Router looks for it, anew each time. Who asks
// the Router by its REST API has the same one.
func (r *Router) writePasswords(ctx context.Context) error {
	password, err := os.ReadFile(filepath.Join(r.Secrets, server.RouterCredential, "password"))
	if err != nil {
		return err
	}
	for _, file := range []string{r.keyring(), r.masterKey(), r.accounts()} {
		if err := atomicfile.Remove(file); err != nil {
			return err
		}
	}
	line := strings.TrimSuffix(string(password), "\n") + "\n"
	masterKey := "--master-key-file=" + r.masterKey()
	// The password is on nobody's command line.
	for _, c := range []struct {
		program   string
		arguments []string
		input     string
	}{
		{r.KeyringProgram, []string{"init", masterKey, r.keyring()}, ""},
		{r.KeyringProgram, []string{"set", masterKey, r.keyring(), server.RouterUser, "password"}, line},
		{r.PasswordProgram, []string{"set", r.accounts(), server.RouterUser}, line},
	} {
		cmd := exec.CommandContext(ctx, c.program, c.arguments...)
		cmd.Stdin = strings.NewReader(c.input)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s %s: %w: %s", c.program, c.arguments[0], err, out)
		}
	}
	return os.Chmod(r.accounts(), private)
}

// selfSign makes a certificate that leads nowhere, as the servers do that are given none: clients can speak TLS with it
// that do not ask whose it is. Those that speak none encrypt their passwords with its key, which has to be one of RSA
// for that.
func (r *Router) selfSign() error {
	key, err := rsa.GenerateKey(rand.Reader, keyBits)
	if err != nil {
		return err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "mysqlrouter"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(selfSignedFor)}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(r.certificate(), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}), private),
		os.WriteFile(r.key(), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), private))
}
