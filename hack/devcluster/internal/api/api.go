// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package api asks a cluster's API server about the little that bringing it
// up depends on.
package api

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/zeroinfra/hack/devcluster/internal/pki"
)

// Client asks one API server.
type Client struct {
	base string
	http *http.Client
}

// New returns a client that trusts the authority alone.
func New(server string, ca []byte, pair pki.Pair) (*Client, error) {
	cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		return nil, fmt.Errorf("cannot use the administrator's certificate: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, errors.New("cannot use the cluster's CA certificate: no certificate in it")
	}
	return &Client{base: server, http: &http.Client{
		Timeout: 5 * time.Second,
		// No proxy of the caller's environment: the server is on this machine.
		Transport: &http.Transport{TLSClientConfig: &tls.Config{
			RootCAs: pool, Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12,
		}},
	}}, nil
}

// get reads one resource.
func (c *Client) get(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("cannot reach the API server: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("cannot read the API server's answer to %q: %w", path, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("cannot read %q: the API server answers %s", path, resp.Status)
	}
	return body, nil
}

func (c *Client) read(ctx context.Context, path string, into any) error {
	body, err := c.get(ctx, path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("cannot understand the API server's answer to %q: %w", path, err)
	}
	return nil
}

// Ready tells whether the API server says that it is ready, or why not.
func (c *Client) Ready(ctx context.Context) error {
	_, err := c.get(ctx, "/readyz")
	return err
}

type condition struct {
	Type, Status, Reason, Message string
}

func find(conditions []condition, kind string) condition {
	for _, c := range conditions {
		if c.Type == kind {
			return c
		}
	}
	return condition{Type: kind, Status: "Unknown", Reason: "NotReported"}
}

// State says whether something is ready, and in a few words why not.
type State struct {
	Ready  bool   `json:"ready"`
	Reason string `json:"reason,omitempty"`
}

// Nodes returns the state of every registered node.
func (c *Client) Nodes(ctx context.Context) (map[string]State, error) {
	var list struct {
		Items []struct {
			Metadata struct{ Name string }
			Status   struct{ Conditions []condition }
		}
	}
	if err := c.read(ctx, "/api/v1/nodes", &list); err != nil {
		return nil, err
	}
	states := map[string]State{}
	for _, n := range list.Items {
		ready := find(n.Status.Conditions, "Ready")
		s := State{Ready: ready.Status == "True"}
		if !s.Ready {
			s.Reason = ready.Reason
		}
		states[n.Metadata.Name] = s
	}
	return states, nil
}

// Heartbeat returns when a node last said that it lives.
func (c *Client) Heartbeat(ctx context.Context, node string) (time.Time, error) {
	var lease struct {
		Spec struct{ RenewTime time.Time }
	}
	err := c.read(ctx, "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/"+node, &lease)
	return lease.Spec.RenewTime, err
}

// Deployment returns the state of a Deployment: ready when all its replicas
// are of the newest form and available.
func (c *Client) Deployment(ctx context.Context, namespace, name string) (State, error) {
	var d struct {
		Metadata struct{ Generation int64 }
		Spec     struct{ Replicas int }
		Status   struct {
			ObservedGeneration                           int64
			UpdatedReplicas, AvailableReplicas, Replicas int
		}
	}
	if err := c.read(ctx, fmt.Sprintf("/apis/apps/v1/namespaces/%s/deployments/%s", namespace, name), &d); err != nil {
		return State{}, err
	}
	s := d.Status
	if s.ObservedGeneration >= d.Metadata.Generation && s.UpdatedReplicas == d.Spec.Replicas &&
		s.Replicas == d.Spec.Replicas && s.AvailableReplicas == d.Spec.Replicas {
		return State{Ready: true}, nil
	}
	return State{Reason: fmt.Sprintf("%d/%d available", s.AvailableReplicas, d.Spec.Replicas)}, nil
}

// DaemonSet returns the state of a DaemonSet: ready when every node has it, in
// its newest form and available.
func (c *Client) DaemonSet(ctx context.Context, namespace, name string) (State, error) {
	var d struct {
		Metadata struct{ Generation int64 }
		Status   struct {
			ObservedGeneration                                              int64
			DesiredNumberScheduled, UpdatedNumberScheduled, NumberAvailable int
		}
	}
	if err := c.read(ctx, fmt.Sprintf("/apis/apps/v1/namespaces/%s/daemonsets/%s", namespace, name), &d); err != nil {
		return State{}, err
	}
	s := d.Status
	if s.ObservedGeneration >= d.Metadata.Generation && s.DesiredNumberScheduled > 0 &&
		s.UpdatedNumberScheduled == s.DesiredNumberScheduled && s.NumberAvailable == s.DesiredNumberScheduled {
		return State{Ready: true}, nil
	}
	return State{Reason: fmt.Sprintf("%d/%d available", s.NumberAvailable, s.DesiredNumberScheduled)}, nil
}

// Drivers tells whether all nodes have a CSI driver.
func (c *Client) Drivers(ctx context.Context, driver string, nodes []string) (State, error) {
	var list struct {
		Items []struct {
			Metadata struct{ Name string }
			Spec     struct{ Drivers []struct{ Name string } }
		}
	}
	if err := c.read(ctx, "/apis/storage.k8s.io/v1/csinodes", &list); err != nil {
		return State{}, err
	}
	missing := slices.Clone(nodes)
	for _, n := range list.Items {
		for _, d := range n.Spec.Drivers {
			if d.Name == driver {
				missing = slices.DeleteFunc(missing, func(name string) bool { return name == n.Metadata.Name })
			}
		}
	}
	if len(missing) > 0 {
		return State{Reason: "not on " + strings.Join(missing, ", ")}, nil
	}
	return State{Ready: true}, nil
}

// Metrics tells whether the aggregated metrics API answers for a node.
func (c *Client) Metrics(ctx context.Context, nodes []string) (State, error) {
	var list struct {
		Items []struct{ Metadata struct{ Name string } }
	}
	if err := c.read(ctx, "/apis/metrics.k8s.io/v1beta1/nodes", &list); err != nil {
		return State{}, err
	}
	known := map[string]bool{}
	for _, n := range list.Items {
		known[n.Metadata.Name] = true
	}
	var missing []string
	for _, n := range nodes {
		if !known[n] {
			missing = append(missing, n)
		}
	}
	if len(missing) > 0 {
		return State{Reason: "no metrics of " + strings.Join(missing, ", ")}, nil
	}
	return State{Ready: true}, nil
}
