// SPDX-License-Identifier: Apache-2.0

// Package testkafka runs a real Kafka for tests, on loopback: brokers that are controllers, too, with SCRAM over TLS
// for clients and an authorizer.
package testkafka

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/zeroinfra/agents/internal/testnet"
	"github.com/zeroinfra/agents/internal/testpki"
)

// The account that may do everything.
const (
	Admin         = "admin"
	AdminPassword = "not-a-secret-at-all"
)

// LibsVariable names the folder with Kafka's jars, in place of bin/kafka of the repository.
const LibsVariable = "KAFKA_LIBS"

// UseKafka39 has the clusters of a test be of Kafka 3.9.
func UseKafka39(t *testing.T) {
	t.Helper()
	t.Setenv(LibsVariable, filepath.Join(repository(t), "bin", "kafka-3.9"))
}

const (
	// startTime is what a server has to come up, on a machine that is busy.
	startTime = 4 * time.Minute
	startPoll = 200 * time.Millisecond
	readyLine = "Kafka Server started"
)

// Cluster is one that ends with the test.
type Cluster struct {
	*testing.T
	// ID of the cluster.
	ID string
	// CAFile is what the certificates of the brokers lead to.
	CAFile string
	// Nodes have the numbers 1, 2, …
	Nodes []*Node

	dir, libs string
	authority *testpki.Authority
	settings  []string
	// bootstrap are the addresses of dedicated controllers; none where each node is broker and controller.
	bootstrap []string
}

// Node is a broker, a controller or both.
type Node struct {
	// ID is its number.
	ID int
	// Address of the listener for clients: host and port.
	Address string
	// Controller is the address of the listener for controllers, which speaks no TLS and asks for no login. Brokers of a
	// cluster with dedicated controllers have none.
	Controller string
	// Directory is the identifier of its folder.
	Directory string

	cluster            *Cluster
	dir, log, internal string
	rack               string
	cmd                *exec.Cmd
	exited             chan struct{}
}

// New starts a cluster of so many nodes, each in a rack of its own, and waits for it. Settings are lines of
// server.properties.
func New(t *testing.T, nodes int, settings ...string) *Cluster {
	t.Helper()
	racks := make([]string, nodes)
	for i := range racks {
		racks[i] = fmt.Sprintf("rack-%d", i+1)
	}
	return NewInRacks(t, racks, settings...)
}

// NewInRacks is New with a node in each of these racks.
func NewInRacks(t *testing.T, racks []string, settings ...string) *Cluster {
	t.Helper()
	c := newCluster(t, settings)
	for i, rack := range racks {
		n := c.node(i + 1)
		n.rack = rack
		n.Address, n.internal, n.Controller = testnet.FreeAddress(t), testnet.FreeAddress(t), testnet.FreeAddress(t)
		c.Nodes = append(c.Nodes, n)
	}
	c.begin()
	return c
}

func newCluster(t *testing.T, settings []string) *Cluster {
	t.Helper()
	c := &Cluster{T: t, ID: identifier(t), dir: t.TempDir(), libs: libs(t), authority: testpki.New(t), settings: settings}
	c.CAFile = filepath.Join(c.dir, "ca.crt")
	c.write(c.CAFile, string(c.authority.PEM()))
	c.write(filepath.Join(c.dir, "log4j2.properties"), logging)
	c.write(filepath.Join(c.dir, "log4j.properties"), loggingOf3)
	return c
}

func (c *Cluster) node(id int) *Node {
	n := &Node{ID: id, cluster: c, dir: filepath.Join(c.dir, strconv.Itoa(id)), Directory: identifier(c.T)}
	n.log = n.dir + ".log"
	return n
}

// begin starts the nodes that there are as a cluster.
func (c *Cluster) begin() {
	c.Helper()
	for _, n := range c.Nodes {
		n.configure()
	}
	c.together(func(n *Node) error { return n.format() })
	for _, n := range c.Nodes {
		n.Start()
	}
	c.together(func(n *Node) error { return n.ready() })
}

// ClientCertificate writes a certificate of the authority for a client, and returns the files with it and its key.
func (c *Cluster) ClientCertificate() (certificate, key string) {
	c.Helper()
	issued, itsKey := c.authority.Issue(c.T, testpki.Leaf{Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	certificate, key = filepath.Join(c.dir, "client.crt"), filepath.Join(c.dir, "client.key")
	c.write(certificate, string(issued))
	c.write(key, string(itsKey))
	return certificate, key
}

// libs finds the jars.
func libs(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("java"); err != nil {
		t.Fatal("there is no java: install Debian's package openjdk-17-jre-headless")
	}
	folder := os.Getenv(LibsVariable)
	for at := "."; folder == ""; at = filepath.Join(at, "..") {
		if _, err := os.Stat(filepath.Join(at, "go.work")); err == nil {
			folder = filepath.Join(at, "bin", "kafka")
		}
		if path, err := filepath.Abs(at); err != nil || path == "/" {
			t.Fatalf("this is not the repository: name the folder with Kafka's jars in %s", LibsVariable)
		}
	}
	folder, err := filepath.Abs(folder)
	if err != nil {
		t.Fatal(err)
	}
	if jars, _ := filepath.Glob(filepath.Join(folder, "kafka_*.jar")); len(jars) == 0 {
		t.Fatalf("there is no Kafka in %s: run make server-kafka", folder)
	}
	return folder
}

// identifier is a new one in Kafka's form. It begins with a letter, so that no command takes it for an option.
func identifier(t *testing.T) string {
	t.Helper()
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		t.Fatal(err)
	}
	id[0] &= 0x3f
	return base64.RawURLEncoding.EncodeToString(id[:])
}

func (c *Cluster) write(path, content string) {
	c.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		c.Fatal(err)
	}
}

// together does something for all nodes at a time.
func (c *Cluster) together(do func(*Node) error) {
	c.Helper()
	errs := make(chan error, len(c.Nodes))
	for _, n := range c.Nodes {
		go func() { errs <- do(n) }()
	}
	for range c.Nodes {
		if err := <-errs; err != nil {
			c.Error(err)
		}
	}
	if c.Failed() {
		c.FailNow()
	}
}

const logging = `status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %m (%c)%n
rootLogger.level = INFO
rootLogger.appenderRef.out.ref = out
`

// loggingOf3 is for Kafka 3.
const loggingOf3 = `log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %p %m (%c)%n
`

// FolderOfNode in a setting stands for the folder of each node.
const FolderOfNode = "{folder}"

const properties = `process.roles=broker,controller
node.id=%[1]d
broker.rack=%[10]s
log.dirs=%[2]s
listeners=CLIENT://%[3]s,INTERNAL://%[4]s,CONTROLLER://%[5]s
advertised.listeners=CLIENT://%[3]s,INTERNAL://%[4]s,CONTROLLER://%[5]s
listener.security.protocol.map=CLIENT:SASL_SSL,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=INTERNAL
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=%[6]s
listener.name.client.sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.client.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.client.ssl.keystore.type=PEM
listener.name.client.ssl.keystore.location=%[7]s
listener.name.client.ssl.truststore.type=PEM
listener.name.client.ssl.truststore.location=%[9]s
listener.name.client.ssl.client.auth=none
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:admin
auto.create.topics.enable=false
offsets.topic.num.partitions=3
offsets.topic.replication.factor=%[8]d
transaction.state.log.replication.factor=%[8]d
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
log.cleaner.dedupe.buffer.size=4194304
`

func (n *Node) configure() {
	c := n.cluster
	c.Helper()
	if err := os.MkdirAll(n.dir, 0o700); err != nil {
		c.Fatal(err)
	}
	if len(c.bootstrap) > 0 {
		n.configureDedicated()
		return
	}
	var controllers []string
	for _, node := range c.Nodes {
		controllers = append(controllers, node.Controller)
	}
	keystore := n.keystore()
	text := fmt.Sprintf(properties, n.ID, filepath.Join(n.dir, "data"), n.Address, n.internal, n.Controller,
		strings.Join(controllers, ","), keystore, min(len(c.Nodes), 3), c.CAFile, n.rack)
	c.write(n.properties(), text+strings.ReplaceAll(strings.Join(c.settings, "\n"), FolderOfNode, n.dir)+"\n")
}

// Folder has the files of the node.
func (n *Node) Folder() string { return n.dir }

// FormatAgain formats those log directories of a node that does not run which are empty.
func (n *Node) FormatAgain() {
	n.cluster.Helper()
	said, err := n.cluster.java(n.cluster.Context(), "kafka.tools.StorageTool", "format", "-t", n.cluster.ID, "-c",
		n.properties(), "--no-initial-controllers", "--ignore-formatted").CombinedOutput()
	if err != nil {
		n.cluster.Fatalf("node %d cannot be formatted: %v: %s", n.ID, err, said)
	}
}

// keystore writes key and certificate of a broker.
func (n *Node) keystore() string {
	c := n.cluster
	c.Helper()
	certificate, key := c.authority.Issue(c.T, testpki.Leaf{Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	keystore := filepath.Join(n.dir, "server.pem")
	c.write(keystore, string(key)+string(certificate))
	return keystore
}

func (n *Node) properties() string { return filepath.Join(n.dir, "server.properties") }

// java is a command that ends with the test's process.
func (c *Cluster) java(ctx context.Context, arguments ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "java",
		append([]string{"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:MaxMetaspaceSize=128m",
			"-Dlog4j2.configurationFile=" + filepath.Join(c.dir, "log4j2.properties"),
			"-Dlog4j.configuration=file:" + filepath.Join(c.dir, "log4j.properties"), "-cp", filepath.Join(c.libs, "*")},
			slices.Concat(c.hosts(), arguments)...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// Tool starts one of Kafka's own tools, which speaks with the first node as somebody who may do everything. It returns
// what stops it.
func (c *Cluster) Tool(class string, arguments ...string) (stop func()) {
	c.Helper()
	ctx, cancel := context.WithCancel(c.Context())
	cmd := c.java(ctx, append([]string{class, "--bootstrap-server", c.Nodes[0].internal}, arguments...)...)
	// It says goodbye then, if it can.
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(syscall.SIGTERM) }, startTime
	if err := cmd.Start(); err != nil {
		c.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		cancel()
		_ = cmd.Wait()
	})
	c.Cleanup(stop)
	return stop
}

func (n *Node) format() error {
	ctx, cancel := context.WithTimeout(n.cluster.Context(), startTime)
	defer cancel()
	arguments := []string{"kafka.tools.StorageTool", "format", "-t", n.cluster.ID, "-c", n.properties()}
	if voters := n.cluster.voters(); slices.Contains(voters, n.voter()) {
		arguments = append(arguments, "--initial-controllers", strings.Join(voters, ","),
			"--add-scram", fmt.Sprintf("SCRAM-SHA-512=[name=%s,password=%s]", Admin, AdminPassword))
	} else {
		arguments = append(arguments, "--no-initial-controllers")
	}
	out, err := n.cluster.java(ctx, arguments...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("node %d cannot be formatted: %w: %s", n.ID, err, out)
	}
	return nil
}

// Start starts the node. It does not answer yet.
func (n *Node) Start() {
	c := n.cluster
	c.Helper()
	log, err := os.Create(n.log)
	if err != nil {
		c.Fatal(err)
	}
	defer log.Close()
	n.cmd = c.java(context.Background(), "-Xms256m", "-XX:ReservedCodeCacheSize=64m", "kafka.Kafka", n.properties())
	n.cmd.Stdout, n.cmd.Stderr = log, log
	if err := n.cmd.Start(); err != nil {
		c.Fatal(err)
	}
	cmd, exited := n.cmd, make(chan struct{})
	n.exited = exited
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	c.Cleanup(n.Kill)
}

// Kill ends it with SIGKILL.
func (n *Node) Kill() {
	_ = n.cmd.Process.Kill()
	<-n.exited
}

// Ready waits until a node that was started answers.
func (n *Node) Ready() {
	n.cluster.Helper()
	if err := n.ready(); err != nil {
		n.cluster.Fatal(err)
	}
}

func (n *Node) ready() error {
	deadline := time.Now().Add(startTime)
	for {
		log, err := os.ReadFile(n.log)
		if err == nil && strings.Contains(string(log), readyLine) {
			return nil
		}
		lines := strings.Split(strings.TrimSpace(string(log)), "\n")
		last := strings.Join(lines[max(len(lines)-20, 0):], "\n")
		select {
		case <-n.exited:
			return fmt.Errorf("node %d has ended: %s", n.ID, last)
		case <-n.cluster.Context().Done():
			return fmt.Errorf("node %d: the test ends", n.ID)
		case <-time.After(startPoll):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("node %d did not start within %v: %s", n.ID, startTime, last)
		}
	}
}
