// SPDX-License-Identifier: Apache-2.0

// Package podapi is the only one that knows Kubernetes: it patches annotations of
// the agent's own pod and reads who may write in its set, with the service account that is mounted for that.
package podapi

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	// ServiceAccountDir is where Kubernetes mounts a service account.
	ServiceAccountDir = "/var/run/secrets/kubernetes.io/serviceaccount"
	// fieldManager owns the annotation.
	fieldManager = "zeroinfra-status-agent"
	// requestTimeout bounds one request.
	requestTimeout = 10 * time.Second
	// idleTimeout closes the connection soon: reports come seldom.
	idleTimeout = 5 * time.Second
	// maxStatus is how much of an error answer is read.
	maxStatus = 4 << 10
)

// Pod is the agent's own pod.
type Pod struct {
	server         string
	namespace      string
	name           string
	serviceAccount string

	// ca is the bundle that transport trusts.
	ca        []byte
	transport *http.Transport
}

// FromEnvironment finds the pod from POD_NAMESPACE and POD_NAME, and the API server
// from KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT.
func FromEnvironment(serviceAccountDir string) (*Pod, error) {
	values := map[string]string{}
	var missing []string
	for _, name := range []string{"POD_NAMESPACE", "POD_NAME", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"} {
		if values[name] = os.Getenv(name); values[name] == "" {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("cannot find the own pod: set %s in the container's environment", strings.Join(missing, ", "))
	}
	return &Pod{
		server:         "https://" + net.JoinHostPort(values["KUBERNETES_SERVICE_HOST"], values["KUBERNETES_SERVICE_PORT"]),
		namespace:      values["POD_NAMESPACE"],
		name:           values["POD_NAME"],
		serviceAccount: serviceAccountDir,
	}, nil
}

// Annotate sets one annotation. Token and CA are read anew, as both are replaced
// in time. It must not be called concurrently.
func (p *Pod) Annotate(ctx context.Context, key, value string) error {
	if err := p.annotate(ctx, key, value); err != nil {
		return fmt.Errorf("cannot annotate pod %q: %w", p.namespace+"/"+p.name, err)
	}
	return nil
}

func (p *Pod) annotate(ctx context.Context, key, value string) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{key: value}}})
	if err != nil {
		return err
	}
	path := "/api/v1/namespaces/" + url.PathEscape(p.namespace) + "/pods/" + url.PathEscape(p.name) + "?fieldManager=" +
		fieldManager
	response, err := p.request(ctx, http.MethodPatch, path, body)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

// request sends one, with at most requestTimeout for all of it, and returns what has come when that is well.
func (p *Pod) request(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	token, err := os.ReadFile(filepath.Join(p.serviceAccount, "token"))
	if err != nil {
		cancel()
		return nil, err
	}
	if err := p.trust(); err != nil {
		cancel()
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, method, p.server+path, bytes.NewReader(body))
	if err != nil {
		cancel()
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	request.Header.Set("User-Agent", fieldManager)
	if method == http.MethodPatch {
		request.Header.Set("Content-Type", "application/merge-patch+json")
		// The answer would be the whole pod.
		request.Header.Set("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1, application/json")
	}
	response, err := p.transport.RoundTrip(request)
	if err != nil {
		cancel()
		return nil, err
	}
	response.Body = timedBody{response.Body, cancel}
	if response.StatusCode != http.StatusOK {
		defer response.Body.Close()
		return nil, refusal(response)
	}
	return response, nil
}

// timedBody ends the request's time when it is closed.
type timedBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

// Close implements io.Closer.
func (b timedBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}

// refusal is what the API server says about a request that it did not carry out.
func refusal(response *http.Response) error {
	data, err := io.ReadAll(io.LimitReader(response.Body, maxStatus))
	if err != nil {
		return errors.Join(errors.New(response.Status), err)
	}
	var status struct {
		Message string `json:"message"`
	}
	if err := json.Unmarshal(data, &status); err != nil || status.Message == "" {
		return errors.New(response.Status)
	}
	return fmt.Errorf("%s: %s", response.Status, status.Message)
}

// trust makes a transport when the mounted CA changed.
func (p *Pod) trust() error {
	ca, err := os.ReadFile(filepath.Join(p.serviceAccount, "ca.crt"))
	if err != nil {
		return err
	}
	if p.transport != nil && bytes.Equal(ca, p.ca) {
		return nil
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return errors.New("ca.crt of the service account holds no certificate")
	}
	if p.transport != nil {
		p.transport.CloseIdleConnections()
	}
	p.ca = ca
	p.transport = &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout: requestTimeout,
		IdleConnTimeout:     idleTimeout,
	}
	return nil
}
