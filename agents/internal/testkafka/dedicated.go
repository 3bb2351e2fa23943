// SPDX-License-Identifier: Apache-2.0

package testkafka

import (
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/zeroinfra/agents/internal/testnet"
)

const (
	// Domain of the controllers of a cluster that has dedicated ones; the virtual machines of the nodes alone know it.
	Domain = "kafka.test"
	// controllerBase is added to the ordinal of a controller and gives its number.
	controllerBase = 1000
	// mostControllers that there can be.
	mostControllers = 5
)

// Dedicated is a cluster whose controllers are no brokers: they are called controller-0, controller-1, … in Domain,
// have the numbers 1000, 1001, … and one port. Nodes are the brokers.
type Dedicated struct {
	*Cluster
	// Controllers by ordinal.
	Controllers []*Node
	// Port of their listener.
	Port int
}

// NewDedicated starts a cluster of so many controllers and brokers, and waits for it.
func NewDedicated(t *testing.T, controllers, brokers int, settings ...string) *Dedicated {
	t.Helper()
	d := &Dedicated{Cluster: newCluster(t, settings)}
	_, port, err := net.SplitHostPort(testnet.FreeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	if d.Port, err = strconv.Atoi(port); err != nil {
		t.Fatal(err)
	}
	var hosts strings.Builder
	for i := range mostControllers {
		d.bootstrap = append(d.bootstrap, net.JoinHostPort(loopback(i), port))
		fmt.Fprintf(&hosts, "%s %s\n", loopback(i), ControllerName(i)+"."+Domain)
	}
	d.write(d.hostsFile(), hosts.String()+"127.0.0.1 localhost\n")
	for i := range controllers {
		d.Controllers = append(d.Controllers, d.controller(i))
	}
	for id := 1; id <= brokers; id++ {
		n := d.node(id)
		n.Address, n.internal = testnet.FreeAddress(t), testnet.FreeAddress(t)
		d.Nodes = append(d.Nodes, n)
	}
	all := d.Nodes
	d.Nodes = append(d.Controllers[:len(d.Controllers):len(d.Controllers)], all...)
	d.begin()
	d.Nodes = all
	return d
}

// ControllerName is the name of the pod that a controller would have.
func ControllerName(ordinal int) string { return fmt.Sprintf("controller-%d", ordinal) }

// loopback is the address of a controller: all have the same port.
func loopback(ordinal int) string { return fmt.Sprintf("127.0.0.%d", 10+ordinal) }

func (d *Dedicated) controller(ordinal int) *Node {
	n := d.node(controllerBase + ordinal)
	n.Controller = net.JoinHostPort(loopback(ordinal), strconv.Itoa(d.Port))
	return n
}

// AddController starts one more controller, with an empty folder. It votes when it is added to the voters.
func (d *Dedicated) AddController() *Node {
	d.Helper()
	n := d.controller(len(d.Controllers))
	n.configure()
	if err := n.format(); err != nil {
		d.Fatal(err)
	}
	n.Start()
	n.Ready()
	d.Controllers = append(d.Controllers, n)
	return n
}

// isController says whether a node of a cluster with dedicated controllers is one.
func (n *Node) isController() bool { return n.Address == "" }

// voter is how a node is named that votes from the beginning; empty for a broker.
func (n *Node) voter() string {
	if n.Controller == "" {
		return ""
	}
	return fmt.Sprintf("%d@%s:%s", n.ID, n.Controller, n.Directory)
}

// voters are those that vote from the beginning: the nodes of the cluster that is formatted.
func (c *Cluster) voters() (all []string) {
	for _, node := range c.Nodes {
		if voter := node.voter(); voter != "" {
			all = append(all, voter)
		}
	}
	return all
}

func (c *Cluster) hostsFile() string { return filepath.Join(c.dir, "hosts") }

// hosts has a virtual machine know the names of controllers.
func (c *Cluster) hosts() []string {
	if len(c.bootstrap) == 0 {
		return nil
	}
	return []string{"-Djdk.net.hosts.file=" + c.hostsFile()}
}

const dedicatedProperties = `node.id=%[1]d
log.dirs=%[2]s
listener.security.protocol.map=CLIENT:SASL_SSL,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=%[3]s
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:admin
`

const controllerProperties = `process.roles=controller
listeners=CONTROLLER://%[1]s
advertised.listeners=CONTROLLER://%[1]s
`

const brokerProperties = `process.roles=broker
listeners=CLIENT://%[1]s,INTERNAL://%[2]s
advertised.listeners=CLIENT://%[1]s,INTERNAL://%[2]s
inter.broker.listener.name=INTERNAL
listener.name.client.sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.client.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.client.ssl.keystore.type=PEM
listener.name.client.ssl.keystore.location=%[3]s
offsets.topic.replication.factor=1
`

func (n *Node) configureDedicated() {
	c := n.cluster
	c.Helper()
	text := fmt.Sprintf(dedicatedProperties, n.ID, filepath.Join(n.dir, "data"), strings.Join(c.bootstrap, ","))
	if n.isController() {
		text += fmt.Sprintf(controllerProperties, n.Controller)
	} else {
		text += fmt.Sprintf(brokerProperties, n.Address, n.internal, n.keystore())
	}
	c.write(n.properties(), text+strings.Join(c.settings, "\n")+"\n")
}
