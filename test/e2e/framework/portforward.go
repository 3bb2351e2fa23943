// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// PortForwards lead from outside to ports of pods, by way of the API server, for as long as the test goes on that they
// were made for.
type PortForwards struct {
	*Namespace
	mu   sync.Mutex
	open map[string]string
}

// NewPortForwards returns port-forwards that are opened when they are first used.
func (s *Namespace) NewPortForwards() *PortForwards {
	return &PortForwards{Namespace: s, open: map[string]string{}}
}

// Address is the local address of a port of a pod, whichever pod of that name there is.
func (w *PortForwards) Address(pod string, port int) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	target := net.JoinHostPort(pod, strconv.Itoa(port))
	if w.open[target] == "" {
		w.open[target] = w.PortForward(w.Namespace.Name, pod, port)
	}
	return w.open[target]
}

// Dial reaches a pod by its DNS name, which begins with its own.
func (w *PortForwards) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	pod, port, err := SplitPodAddress(address)
	if err != nil {
		return nil, err
	}
	return (&net.Dialer{}).DialContext(ctx, network, w.Address(pod, port))
}

// DialService reaches a Service of the namespace by its DNS name: a pod that it leads to now, through a port-forward.
func (w *PortForwards) DialService(ctx context.Context, network, address string) (net.Conn, error) {
	service, port, err := SplitPodAddress(address)
	if err != nil {
		return nil, err
	}
	var leads discoveryv1.EndpointSliceList
	if err := Cluster.Client.List(ctx, &leads, client.InNamespace(w.Name),
		client.MatchingLabels{discoveryv1.LabelServiceName: service}); err != nil {
		return nil, err
	}
	for _, slice := range leads.Items {
		for _, endpoint := range slice.Endpoints {
			if endpoint.TargetRef != nil && endpoint.Conditions.Ready != nil && *endpoint.Conditions.Ready {
				return (&net.Dialer{}).DialContext(ctx, network, w.Address(endpoint.TargetRef.Name, port))
			}
		}
	}
	return nil, fmt.Errorf("Service %q leads nowhere", service)
}

// SplitPodAddress is what an address names first, which is a pod or a Service, and a port of it.
func SplitPodAddress(address string) (name string, port int, err error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, err
	}
	name, _, _ = strings.Cut(host, ".")
	port, err = strconv.Atoi(text)
	return name, port, err
}

// forwarder carries connections to a port of a pod by way of the API server. Each has a tunnel of its own: in a shared
// one, as client-go's PortForwarder has it, a connection that the pod resets ends all others.
type forwarder struct {
	listener net.Listener
	dialer   httpstream.Dialer
	port     string

	mu sync.Mutex
	// broken counts the connections that broke by why they did.
	broken map[string]int
}

// PortForward opens a way to a port of a pod and returns its local address. It is closed at the end of the test.
func (s *Namespace) PortForward(namespace, pod string, port int) string {
	s.Helper()
	transport, upgrader, err := spdy.RoundTripperFor(Cluster.Config)
	if err != nil {
		s.Fatal(err)
	}
	url := Cluster.Kube.CoreV1().RESTClient().Post().
		Resource("pods").Namespace(namespace).Name(pod).SubResource("portforward").URL()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.Fatal(err)
	}
	f := &forwarder{
		listener: listener,
		dialer:   spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, url),
		port:     strconv.Itoa(port),
		broken:   map[string]int{},
	}
	s.Cleanup(func() {
		_ = listener.Close()
		f.mu.Lock()
		defer f.mu.Unlock()
		for why, n := range f.broken {
			s.Logf("%d connections to port %d of pod %s broke: %s", n, port, pod, why)
		}
	})
	go f.serve()
	return listener.Addr().String()
}

// serve carries connections until the listener is closed.
func (f *forwarder) serve() {
	for {
		conn, err := f.listener.Accept()
		if err != nil {
			return
		}
		go f.carry(conn.(*net.TCPConn))
	}
}

// carry takes one connection to the pod. What breaks on the way breaks the connection: the client is told by a reset.
func (f *forwarder) carry(conn *net.TCPConn) {
	if err := f.exchange(conn); err != nil {
		f.mu.Lock()
		f.broken[err.Error()]++
		f.mu.Unlock()
		_ = conn.SetLinger(0)
	}
	_ = conn.Close()
}

// attempts at a tunnel. The API server or the kubelet may take longer for one than the library waits on a machine with
// much to do, which says nothing of the pod.
const attempts = 3

func (f *forwarder) exchange(conn *net.TCPConn) error {
	var t *tunnel
	var err error
	for range attempts {
		if t, err = f.open(); err == nil {
			break
		}
	}
	if err != nil {
		return err
	}
	defer func() { _ = t.Close() }()
	go func() {
		// An end of the client's half is passed on; an error shows in the other half.
		_, _ = io.Copy(t.data, conn)
		_ = t.data.Close()
	}()
	if _, err := io.Copy(conn, t.data); err != nil {
		return err
	}
	message, err := io.ReadAll(t.errors)
	if err == nil && len(message) > 0 {
		err = errors.New(string(message))
	}
	return err
}

// tunnel carries one connection, and what is said of it.
type tunnel struct {
	httpstream.Connection
	data, errors httpstream.Stream
}

// open opens a tunnel. Nothing of the connection has been carried before that.
func (f *forwarder) open() (t *tunnel, err error) {
	connection, _, err := f.dialer.Dial(portforward.PortForwardProtocolV1Name)
	if err != nil {
		return nil, err
	}
	t = &tunnel{Connection: connection}
	defer func() {
		if err != nil {
			_ = connection.Close()
		}
	}()
	headers := http.Header{}
	headers.Set(corev1.PortHeader, f.port)
	headers.Set(corev1.PortForwardRequestIDHeader, "0")
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	if t.errors, err = connection.CreateStream(headers); err != nil {
		return nil, err
	}
	// Nothing is written to the stream of errors.
	if err := t.errors.Close(); err != nil {
		return nil, err
	}
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	t.data, err = connection.CreateStream(headers)
	return t, err
}
