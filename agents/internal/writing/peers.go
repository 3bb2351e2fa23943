// SPDX-License-Identifier: Apache-2.0

package writing

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/zeroinfra/agents/internal/atomicfile"
	"github.com/zeroinfra/agents/internal/mutualtls"
	"github.com/zeroinfra/platform-core/agentproto/plan"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

const (
	// addressesFile caches the last working addresses, in the run directory.
	addressesFile = "peers.json"
	// lastTimeout bounds an attempt at the cached address, and lookupTimeout a DNS lookup.
	lastTimeout   = time.Second
	lookupTimeout = 2 * time.Second
	// connectTimeout bounds the setup of a connection.
	connectTimeout = 5 * time.Second
	// maxSilent is the number of unanswered rounds after which a connection is replaced: a dead connection may not report
	// an error.
	maxSilent = 2
	// bufferSize of a connection, which carries only short messages.
	bufferSize = 4 << 10
)

// Agents are clients of the agents of the other pods. They are safe for concurrent use.
type Agents struct {
	certificates *mutualtls.Certificates
	domain       string
	file         string
	log          *slog.Logger

	mu sync.Mutex
	// open connections by pod.
	open map[string]*connection
	// addresses are the last working ones, for when DNS fails.
	addresses map[string]string
}

type connection struct {
	*grpc.ClientConn
	// silent is the number of consecutive rounds without an answer.
	silent int
}

// NewAgents returns clients for the pods "<pod>.<domain>". Working addresses are cached in the run directory.
func NewAgents(certificates *mutualtls.Certificates, domain, runDir string, log *slog.Logger) *Agents {
	a := &Agents{certificates: certificates, domain: domain, file: filepath.Join(runDir, addressesFile), log: log,
		open: map[string]*connection{}, addresses: map[string]string{}}
	data, err := os.ReadFile(a.file)
	if err == nil {
		err = json.Unmarshal(data, &a.addresses)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Warn("the last addresses of the other pods are not known", "error", err.Error())
	}
	return a
}

// Acknowledge implements Peers.
func (a *Agents) Acknowledge(ctx context.Context, pod string, term int64) (*agentv1.AcknowledgeResponse, error) {
	c, err := a.connection(pod)
	if err != nil {
		return nil, err
	}
	answer, err := agentv1.NewPermissionServiceClient(c).Acknowledge(ctx, &agentv1.AcknowledgeRequest{Term: term},
		grpc.WaitForReady(true))
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil {
		c.silent = 0
		return answer, nil
	}
	if c.silent++; c.silent >= maxSilent && a.open[pod] == c {
		delete(a.open, pod)
		c.Close()
	}
	return nil, err
}

func (a *Agents) connection(pod string) (*connection, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.open[pod]; c != nil {
		return c, nil
	}
	// The dialer does TLS, with the certificates at the time of the dial.
	conn, err := grpc.NewClient("passthrough:///"+pod,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(a.dial),
		grpc.WithReadBufferSize(bufferSize), grpc.WithWriteBufferSize(bufferSize),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: connectTimeout,
			Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second}}),
	)
	if err != nil {
		return nil, fmt.Errorf("cannot call pod %q: %w", pod, err)
	}
	c := &connection{ClientConn: conn}
	a.open[pod] = c
	return c, nil
}

// dial connects to the cached address of a pod, or else to the addresses of its DNS name.
func (a *Agents) dial(ctx context.Context, pod string) (net.Conn, error) {
	a.mu.Lock()
	last := a.addresses[pod]
	a.mu.Unlock()
	var lastErr error
	if last != "" {
		short, cancel := context.WithTimeout(ctx, lastTimeout)
		defer cancel()
		conn, err := a.handshake(short, last, pod)
		if err == nil {
			return conn, nil
		}
		lastErr = fmt.Errorf("at its last address %s: %w", last, err)
	}
	lookup, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	found, err := net.DefaultResolver.LookupHost(lookup, pod+"."+a.domain)
	errs := []error{lastErr, err}
	for _, address := range found {
		conn, err := a.handshake(ctx, address, pod)
		if err == nil {
			a.remember(pod, address)
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("cannot reach pod %q: %w", pod, errors.Join(errs...))
}

// handshake connects with TLS, which verifies that the pod is the expected one.
func (a *Agents) handshake(ctx context.Context, address, pod string) (net.Conn, error) {
	config, err := a.certificates.Client(pod)
	if err != nil {
		return nil, err
	}
	dialer := tls.Dialer{Config: config, NetDialer: &net.Dialer{}}
	return dialer.DialContext(ctx, "tcp", net.JoinHostPort(address, strconv.Itoa(plan.ProcessPort)))
}

func (a *Agents) remember(pod, address string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.addresses[pod] == address {
		return
	}
	a.addresses[pod] = address
	data, err := json.Marshal(a.addresses)
	if err == nil {
		err = atomicfile.Write(a.file, data, 0o640)
	}
	if err != nil {
		// The cache is only needed when DNS fails.
		a.log.Warn("cannot keep the addresses of the other pods", "error", err.Error())
	}
}

// Close closes all connections.
func (a *Agents) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, pod := range slices.Sorted(maps.Keys(a.open)) {
		a.open[pod].Close()
		delete(a.open, pod)
	}
}
