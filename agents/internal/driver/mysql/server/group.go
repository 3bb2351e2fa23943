// SPDX-License-Identifier: Apache-2.0

package server

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zeroinfra/agents/internal/driver/mysql"
)

const (
	// GroupUser is the account by which members speak with each other.
	GroupUser = mysql.OwnPrefix + "_group"
	// GroupCredential has its password.
	GroupCredential = "internal"
	// RouterUser is the account by which routers ask for the members.
	RouterUser = mysql.OwnPrefix + "_router"
	// RouterCredential has its password.
	RouterCredential = "router"
)

// Group is what a member is told of its group at its start. It joins when somebody has it do so.
type Group struct {
	// Name that no other group has, such as that of the instance with its namespace.
	Name string
	// Address where other members find the server: host and port. Peers has the port of the group's own protocol.
	Address string
	// Peers are all members with that port, and Own is that of this one.
	Peers []string
	Own   string
	// CAFile is what the certificates of the members lead to; empty without TLS.
	CAFile string
}

// groupPlugins are those of a member.
var groupPlugins = []string{"group_replication.so", "mysql_clone.so"}

// pluginFolders are where a server has its plugins, beside the folder of its program: as the archives of MySQL have
// them, and as distributions do.
var pluginFolders = []string{"lib/plugin", "lib64/plugin", "lib/mysql/plugin", "lib64/mysql/plugin"}

// checkPlugins says what the image of a program lacks. The server would name an option that it does not know. Where
// nobody knows the folder of the plugins, nothing is said.
func checkPlugins(program string) error {
	base := filepath.Dir(filepath.Dir(program))
	for _, folder := range pluginFolders {
		dir := filepath.Join(base, folder)
		if _, err := os.Stat(dir); err != nil {
			continue
		}
		var missing []string
		for _, name := range groupPlugins {
			if _, err := os.Stat(filepath.Join(dir, name)); errors.Is(err, fs.ErrNotExist) {
				missing = append(missing, name)
			}
		}
		if len(missing) > 0 {
			return fmt.Errorf("the image of MySQL lacks %s in %s, without which a server cannot be a member of a group: "+
				"take an image that has all plugins of MySQL", strings.Join(missing, " and "), dir)
		}
		return nil
	}
	return nil
}

// arguments of the server.
func (g *Group) arguments() []string {
	host, port, _ := net.SplitHostPort(g.Address)
	var arguments []string
	for _, name := range groupPlugins {
		arguments = append(arguments, "--plugin-load-add="+name)
	}
	arguments = append(arguments,
		"--report-host="+host, "--report-port="+port,
		// A server takes no writes before its group has made it the primary.
		"--super-read-only=ON",
		"--group-replication-group-name="+uuidOf(g.Name),
		"--group-replication-local-address="+g.Own,
		"--group-replication-group-seeds="+strings.Join(g.Peers, ","),
		// By itself a server lets those in that are in the subnet of its own address: pods of other nodes are not.
		"--group-replication-ip-allowlist="+strings.Join(g.hosts(), ","),
		"--group-replication-start-on-boot=OFF", "--group-replication-bootstrap-group=OFF",
		"--group-replication-single-primary-mode=ON",
		// A member that comes back is ONLINE once it applies in a second what is left, so it has to be faster than those who
		// write: transactions that do not touch the same rows are applied side by side, and reach the disk together.
		"--replica-parallel-workers=16",
	)
	if g.CAFile == "" {
		return append(arguments, "--group-replication-ssl-mode=DISABLED", "--group-replication-recovery-get-public-key=ON")
	}
	return append(arguments, "--group-replication-ssl-mode=VERIFY_CA", "--group-replication-recovery-use-ssl=ON",
		"--group-replication-recovery-ssl-ca="+g.CAFile)
}

// hosts of the peers, each once.
func (g *Group) hosts() []string {
	var hosts []string
	for _, peer := range g.Peers {
		if host, _, err := net.SplitHostPort(peer); err == nil && !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// uuidOf is the same UUID for the same name, in the form of version 8.
func uuidOf(name string) string {
	sum := sha256.Sum256([]byte(name))
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}
