// SPDX-License-Identifier: Apache-2.0

//go:build processes

package build

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// clusterDomain is what the names of the members end with.
const clusterDomain = "shop-node-headless"

// shards are the members of a Redis Cluster in an unpacked image, each at an address of its own on the loopback: three
// primaries, and a replica of the first.
type shards struct {
	*testing.T
	root, script string
	processes    map[string]*exec.Cmd
}

// members and where they are.
var clusterMembers = map[string]string{"shop-node-0-0": "127.0.78.10", "shop-node-0-1": "127.0.78.11",
	"shop-node-1-0": "127.0.78.12", "shop-node-2-0": "127.0.78.13"}

// TestRedisClusterFailsOver has the command of the plugin's template Failover make a replica of a Redis Cluster the
// primary: by agreement with the primary, and without it, where that is down and a mode says so.
func TestRedisClusterFailsOver(t *testing.T) {
	root := unpacked(t, "zeroinfra/redis:7.0")
	if os.Geteuid() != 0 {
		return
	}
	c := &shards{T: t, root: root, script: failoverScript(t), processes: map[string]*exec.Cmd{}}
	hosts := "127.0.0.1 localhost\n"
	for name, address := range clusterMembers {
		hosts += address + " " + name + "." + clusterDomain + "\n"
	}
	for path, content := range map[string]string{"etc/hosts": hosts, "etc/nsswitch.conf": "hosts: files\n",
		"dev/null": "", "dev/termination-log": ""} {
		at := filepath.Join(root, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(content), 0o666),
			os.Chmod(at, 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	for name := range clusterMembers {
		c.start(name)
	}
	c.form()

	expect := func(to, member, mode, says string) {
		t.Helper()
		out, err := c.run(to, mode)
		if says != "" {
			if err == nil || !strings.Contains(out, says) {
				t.Errorf("a failover to %q in mode %q says %q, %v; want %q", to, mode, out, err, says)
			}
			return
		}
		told, _ := os.ReadFile(filepath.Join(root, "dev/termination-log"))
		if err != nil || strings.TrimSpace(string(told)) != "to="+member || !c.is(member, "master") {
			t.Fatalf("a failover to %q in mode %q says %q, %q, %v; want %s as the primary", to, mode, out, told, err, member)
		}
	}
	expect("shop-node-0-0", "", "", "shop-node-0-0 is a primary already")
	expect("", "shop-node-0-1", "", "")
	c.waitFor("the former primary follows", func() bool { return c.linked("shop-node-0-0") })
	expect("shop-node-0-0", "shop-node-0-0", "", "")
	c.waitFor("the former primary follows", func() bool { return c.linked("shop-node-0-1") })

	c.kill("shop-node-0-0")
	c.waitFor("the primary is known to be down", func() bool {
		for line := range strings.Lines(c.cli("shop-node-0-1", "CLUSTER", "NODES")) {
			if strings.Contains(line, clusterMembers["shop-node-0-0"]+":") && strings.Contains(line, "master,fail,") {
				return true
			}
		}
		return false
	})
	expect("shop-node-0-1", "", "", "mode FORCE")
	expect("shop-node-0-1", "shop-node-0-1", "FORCE", "")
	c.start("shop-node-0-0")
	c.waitFor("the former primary follows", func() bool { return c.linked("shop-node-0-0") })
	for _, name := range []string{"shop-node-0-1", "shop-node-1-0", "shop-node-2-0"} {
		c.kill(name)
	}
	expect("shop-node-0-0", "shop-node-0-0", "TAKEOVER", "")
	expect("", "", "", "no replica answers")
}

// failoverScript is what the template of the plugin runs for a Redis Cluster.
func failoverScript(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("../../../../database-operator/plugins/redis/1.0.0/operations/Failover.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var template struct {
		Steps []struct {
			Name string
			Job  struct{ Command []string }
		}
	}
	if err := yaml.Unmarshal(data, &template); err != nil {
		t.Fatal(err)
	}
	for _, step := range template.Steps {
		if command := step.Job.Command; step.Name == "shard" && len(command) == 3 && command[0] == "sh" &&
			command[1] == "-euc" {
			return command[2]
		}
	}
	t.Fatal("the template has no step shard that runs a script")
	return ""
}

// command in the image, as the user of the image and in a group of its own.
func (c *shards) command(environ []string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(c.Context(), args[0], args[1:]...)
	cmd.Dir, cmd.Env = "/", append([]string{"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C.UTF-8"}, environ...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: c.root, Setpgid: true,
		Credential: &syscall.Credential{Uid: electedUser, Gid: electedUser}}
	return cmd
}

// run is what the template does.
func (c *shards) run(to, mode string) (string, error) {
	out, err := c.command([]string{`MEMBERS=[["shop-node-0-0","shop-node-0-1"]]`, "DOMAIN=" + clusterDomain, "TO=" + to,
		"MODE=" + mode},
		"/bin/sh", "-euc", c.script).CombinedOutput()
	return string(out), err
}

func (c *shards) start(name string) {
	c.Helper()
	data := filepath.Join("m", name)
	if err := errors.Join(os.MkdirAll(filepath.Join(c.root, data), 0o755),
		os.Chown(filepath.Join(c.root, data), electedUser, electedUser)); err != nil {
		c.Fatal(err)
	}
	address := clusterMembers[name]
	cmd := c.command(nil, "/usr/bin/redis-server", "--bind", address, "--port", "6379", "--protected-mode", "no", "--dir",
		"/"+data, "--cluster-enabled", "yes",
		// Nobody takes over but who is told to.
		"--cluster-node-timeout", "500", "--cluster-replica-no-failover", "yes", "--cluster-announce-ip", address,
		"--cluster-require-full-coverage", "no", "--logfile", "/"+data+"/log")
	if err := cmd.Start(); err != nil {
		c.Fatal(err)
	}
	c.processes[name] = cmd
	c.Cleanup(func() { c.kill(name) })
	c.waitFor(name+" answers", func() bool { return c.cli(name, "PING") == "PONG" })
}

func (c *shards) kill(name string) {
	if cmd := c.processes[name]; cmd != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		delete(c.processes, name)
	}
}

func (c *shards) cli(name string, args ...string) string {
	out, err := c.command(nil, append([]string{"/usr/bin/redis-cli", "-h", clusterMembers[name], "-p", "6379"},
		args...)...).CombinedOutput()
	if err != nil {
		return string(out) + err.Error()
	}
	return strings.TrimSpace(strings.ReplaceAll(string(out), "\r", ""))
}

func (c *shards) is(name, role string) bool {
	return strings.Contains(c.cli(name, "INFO", "replication"), "role:"+role+"\n")
}

// linked says whether a member is a replica that hears its primary.
func (c *shards) linked(name string) bool {
	return c.is(name, "slave") && strings.Contains(c.cli(name, "INFO", "replication"), "master_link_status:up")
}

// form has the members meet, gives the primaries all slots, and the first one its replica.
func (c *shards) form() {
	c.Helper()
	for i, name := range []string{"shop-node-0-0", "shop-node-1-0", "shop-node-2-0"} {
		if said := c.cli(name, "CLUSTER", "ADDSLOTSRANGE", fmt.Sprint(i*5461), fmt.Sprint(min(i*5461+5460, 16383))); i < 2 &&
			said != "OK" {
			c.Fatalf("%s takes no slots: %s", name, said)
		}
		c.cli(name, "CLUSTER", "SET-CONFIG-EPOCH", fmt.Sprint(i+1))
	}
	c.cli("shop-node-2-0", "CLUSTER", "ADDSLOTS", "16383")
	for name, address := range clusterMembers {
		if name != "shop-node-0-0" {
			c.cli("shop-node-0-0", "CLUSTER", "MEET", address, "6379")
		}
	}
	id := c.cli("shop-node-0-0", "CLUSTER", "MYID")
	c.waitFor("the replica knows its primary", func() bool {
		return c.cli("shop-node-0-1", "CLUSTER", "REPLICATE", id) == "OK"
	})
	c.waitFor("the replica follows", func() bool { return c.linked("shop-node-0-1") })
	for name := range clusterMembers {
		c.waitFor(name+" finds the cluster whole", func() bool {
			info := c.cli(name, "CLUSTER", "INFO")
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_slots_assigned:16384") &&
				strings.Contains(info, "cluster_known_nodes:4")
		})
	}
}

// waitFor waits for a condition.
func (c *shards) waitFor(what string, holds func() bool) {
	c.Helper()
	for until := time.Now().Add(2 * time.Minute); !holds(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(until) {
			c.Fatalf("in vain waited for: %s; the nodes are\n%s", what, c.cli("shop-node-0-1", "CLUSTER", "NODES"))
		}
	}
}
