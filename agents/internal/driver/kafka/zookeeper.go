// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"

	"github.com/IBM/sarama"
)

// metadata says where the cluster keeps it.
type metadata string

const (
	inQuorum    metadata = "quorum"
	inZooKeeper metadata = "zookeeper"
)

// withZooKeeper asks once whether the broker of the pod has its metadata from ZooKeeper, as Kafka 3.9 can. Such a
// broker knows of no quorum. It hands nothing on: the broker that is the controller has to be asked itself.
func (s *session) withZooKeeper() (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.metadata == "" {
		response, err := s.local.ApiVersions(&sarama.ApiVersionsRequest{Version: 0})
		if err != nil {
			return false, fmt.Errorf("cannot ask Kafka what it can do: %w", err)
		}
		s.metadata = inZooKeeper
		if slices.ContainsFunc(response.ApiKeys,
			func(k sarama.ApiVersionsResponseKey) bool { return k.ApiKey == keyDescribeQuorum }) {
			s.metadata = inQuorum
		}
	}
	return s.metadata == inZooKeeper, nil
}

// errNoController says that brokers with ZooKeeper have none at the moment.
var errNoController = errors.New("no broker is the controller at the moment: ask again")

// controllerBroker is the broker that is the controller. Once controllers have taken over from ZooKeeper it is any,
// which hands on.
func (s *session) controllerBroker() (*sarama.DescribeClusterBroker, error) {
	cluster, err := s.brokers()
	if err != nil {
		return nil, err
	}
	for _, broker := range cluster.Brokers {
		if broker.BrokerID == cluster.ControllerID {
			return broker, nil
		}
	}
	return nil, errNoController
}

// lead is who takes changes that the controller has to make: the broker of the pod, which hands them on, or, with
// ZooKeeper, the controller.
func (s *session) lead() (*sarama.Broker, error) {
	if apart, err := s.withZooKeeper(); err != nil || !apart {
		return s.local, err
	}
	controller, err := s.controllerBroker()
	if err != nil {
		return nil, err
	}
	return s.broker(controller.BrokerID)
}

// turnToController has later calls go to the broker that is the controller, where the metadata is in ZooKeeper.
func (s *session) turnToController() error {
	apart, err := s.withZooKeeper()
	if err != nil || !apart || s.wire.broker != s.local {
		return err
	}
	controller, err := s.controllerBroker()
	if err != nil {
		return err
	}
	return s.redirect(net.JoinHostPort(controller.Host, strconv.Itoa(int(controller.Port))))
}

// controllerAlone is what stands for a quorum where the metadata is in ZooKeeper: its leader, and nobody who votes.
func (s *session) controllerAlone() (*quorum, error) {
	controller, err := s.controllerBroker()
	if err != nil {
		return nil, err
	}
	return &quorum{leader: controller.BrokerID, epoch: -1}, nil
}
