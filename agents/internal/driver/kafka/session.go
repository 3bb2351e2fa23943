// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"github.com/zeroinfra/agents/internal/driver"
)

const (
	// clientID is the name of the driver in the brokers' logs and quotas.
	clientID = "zeroinfra"
	// fallbackTimeout of a call without a deadline.
	fallbackTimeout = time.Minute
)

// session is one call's way to the cluster. Connections are opened when they are used, and end with the call.
type session struct {
	ctx    context.Context
	way    way
	config *sarama.Config
	dialer *dialer
	local  *sarama.Broker

	mu sync.Mutex
	// others are connections to brokers by number, and cluster is who they are.
	others  map[int32]*wire
	cluster *sarama.DescribeClusterResponse
	wire    *wire
	// asks is empty while nobody has found out.
	asks authorizer
	// metadata is empty while nobody has asked.
	metadata metadata
	// report is told how far a procedure is; it may be nil.
	report func(driver.Table)
}

// with calls do with a session that ends with it.
func (d *Driver) with(ctx context.Context, do func(*session) error) error {
	way, err := d.reach()
	if err != nil {
		return err
	}
	return way.use(ctx, do)
}

// use calls do with a session of who the way says.
func (w way) use(ctx context.Context, do func(*session) error) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &session{ctx: ctx, way: w, dialer: &dialer{ctx: ctx, secure: w.secure}, others: map[int32]*wire{}}
	s.config = s.dialer.config(w)
	defer s.close()
	if s.local, err = s.openFirst(w.addresses); err != nil {
		return err
	}
	s.wire = s.dialer.wireOf(s.local)
	err = do(s)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("the call did not end in time: %w", context.Cause(ctx))
	}
	return err
}

func (s *session) close() {
	if s.local != nil {
		_ = s.local.Close()
	}
	for _, other := range s.others {
		_ = other.broker.Close()
	}
	if s.wire != nil && s.wire.broker != s.local {
		_ = s.wire.broker.Close()
	}
}

// openFirst connects to the first of some addresses that answers.
func (s *session) openFirst(addresses []string) (broker *sarama.Broker, err error) {
	for _, address := range addresses {
		s.dialer.first = nil
		if broker, err = s.open(address); err == nil || errors.Is(err, sarama.ErrSASLAuthenticationFailed) {
			return broker, err
		}
	}
	return nil, err
}

// open connects to a broker and logs in.
func (s *session) open(address string) (*sarama.Broker, error) {
	broker := sarama.NewBroker(address)
	if err := broker.Open(s.config); err != nil {
		return nil, fmt.Errorf("cannot reach Kafka: %w", err)
	}
	// The library connects beside the caller, and this waits for it.
	if connected, err := broker.Connected(); !connected || err != nil {
		err = cmp.Or(err, sarama.ErrNotConnected)
		_ = broker.Close()
		if errors.Is(err, sarama.ErrSASLAuthenticationFailed) {
			return nil, fmt.Errorf("cannot log in to Kafka: %w", err)
		}
		return nil, fmt.Errorf("cannot reach Kafka at %s: %w", address, err)
	}
	return broker, nil
}

// brokers are all that the cluster knows, also those that are fenced: registered, and not alive.
func (s *session) brokers() (*sarama.DescribeClusterResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cluster != nil {
		return s.cluster, nil
	}
	response, err := s.local.DescribeCluster(&sarama.DescribeClusterRequest{Version: 2,
		EndpointType: sarama.DescribeClusterEndpointTypeBrokers, IncludeFencedBrokers: true})
	if err != nil {
		return nil, fmt.Errorf("cannot describe the cluster: %w", err)
	}
	if response.Err != sarama.ErrNoError {
		return nil, said(response.Err, response.ErrorMessage)
	}
	s.cluster = response
	return response, nil
}

// forget has the next look at the brokers be a new one.
func (s *session) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cluster = nil
}

// alive are the numbers of the brokers that are not fenced.
func (s *session) alive() ([]int32, error) {
	cluster, err := s.brokers()
	if err != nil {
		return nil, err
	}
	return notFenced(cluster), nil
}

func notFenced(cluster *sarama.DescribeClusterResponse) (ids []int32) {
	for _, broker := range cluster.Brokers {
		if !broker.IsFenced {
			ids = append(ids, broker.BrokerID)
		}
	}
	return ids
}

// broker returns a connection to one of the cluster. It is safe for concurrent use.
func (s *session) broker(id int32) (*sarama.Broker, error) {
	w, err := s.wireTo(id)
	if err != nil {
		return nil, err
	}
	return w.broker, nil
}

// renewTo is wireTo where nobody else uses the connection, which may answer as much as at the beginning.
func (s *session) renewTo(id int32) (*wire, error) {
	w, err := s.wireTo(id)
	if err == nil {
		driver.Renew(w.raw)
	}
	return w, err
}

// wireTo is broker for requests that the library has not.
func (s *session) wireTo(id int32) (*wire, error) {
	cluster, err := s.brokers()
	if err != nil {
		return nil, err
	}
	for _, known := range cluster.Brokers {
		switch {
		case known.BrokerID != id:
			continue
		case known.IsFenced:
			return nil, fmt.Errorf("broker %d is registered and not alive: start it, or wait until it is", id)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if open := s.others[id]; open != nil {
			return open, nil
		}
		opened, err := s.open(net.JoinHostPort(known.Host, strconv.Itoa(int(known.Port))))
		if err != nil {
			return nil, fmt.Errorf("broker %d: %w", id, err)
		}
		s.others[id] = s.dialer.wireOf(opened)
		return s.others[id], nil
	}
	return nil, fmt.Errorf("the cluster has no broker %d", id)
}

// timeout is what the cluster has for one request.
func (s *session) timeout() time.Duration { return min(requestTimeout, s.dialer.left()) }

func (s *session) milliseconds() int32 { return int32(s.timeout().Milliseconds()) }

// dialer makes the connections of a session. They end with its context, and what they may be answered is bounded. TLS
// is done by the way, and not by the library.
type dialer struct {
	ctx    context.Context
	secure func(connection net.Conn, address string) net.Conn
	// first is the connection to the broker of the pod, and last the one that was made last, as the library has it; raw is
	// that one below TLS.
	first, last, raw net.Conn
}

// wireOf is the connection of the broker that was opened last.
func (d *dialer) wireOf(broker *sarama.Broker) *wire {
	return &wire{broker: broker, connection: d.last, raw: d.raw}
}

// Dial implements the library's interface for dialers.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	connection, err := driver.Dial(d.ctx, network, address)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(d.ctx, func() { _ = connection.Close() })
	if d.first == nil {
		d.first = connection
	}
	d.raw = connection
	if d.secure != nil {
		connection = d.secure(connection, address)
	}
	d.last = connection
	return connection, nil
}

// left is the time until the deadline.
func (d *dialer) left() time.Duration {
	if deadline, ok := d.ctx.Deadline(); ok {
		return max(time.Until(deadline), time.Millisecond)
	}
	return fallbackTimeout
}

// config is the library's, with as few goroutines and as little waiting as it can do with.
func (d *dialer) config(w way) *sarama.Config {
	config := sarama.NewConfig()
	config.ClientID, config.Version = clientID, sarama.MaxVersion
	config.Net.Proxy.Enable, config.Net.Proxy.Dialer = true, d
	config.Net.ReadTimeout, config.Net.WriteTimeout = d.left(), d.left()
	if w.username != "" {
		config.Net.SASL.Enable, config.Net.SASL.Mechanism = true, w.mechanism
		config.Net.SASL.User, config.Net.SASL.Password = w.username, w.password
		config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient {
			if w.mechanism == sarama.SASLTypeSCRAMSHA256 {
				return &scramClient{digest: sha256.New}
			}
			return &scramClient{}
		}
	}
	return config
}

// renew lets the connection to the broker of the pod answer as much as at the beginning.
func (s *session) renew() { driver.Renew(s.dialer.first) }
