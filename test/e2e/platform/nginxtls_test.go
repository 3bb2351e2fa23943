// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// TestNginxTLS has nginx speak TLS, and renews its certificate while clients ask without pause: no request fails, and
// the processes are the same.
func TestNginxTLS(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "nginxtls")
	s.EnsureCommonOperator()
	spec := nginxApplication()
	spec.TLS = &platformv1.TLS{Enabled: true}
	n := &nginx{s.CreateApplication("shop", spec)}
	t.Logf("apply to Ready of two pods: %s", framework.FormatSeconds(n.WaitReady()))
	secret := &corev1.Secret{}
	n.MustGet(platformv1.BindingNameFor(n.Name), secret)
	if got, want := string(secret.Data["uri"]), "https://"+n.Host()+":8080"; got != want {
		t.Errorf("the URI of the binding is %q, want %q", got, want)
	}
	before, masters, uids := n.Certificates(8080), n.masters(), n.UIDs()
	pod := n.Pods()[0].Name
	clients := n.startHTTPS(before[pod].Address)
	plain := &http.Client{Timeout: framework.EndpointTimeout}
	s.Eventually(framework.SettleTimeout, "somebody without TLS is answered", func() error {
		response, err := plain.Get("http://" + before[pod].Address)
		if err != nil {
			return err
		}
		if response.StatusCode != http.StatusBadRequest {
			t.Errorf("without TLS the answer is %s, want 400", response.Status)
		}
		return response.Body.Close()
	})
	if _, err := framework.ServerCertificate(before[pod].Address, "another.name", n.CACertificate()); err == nil {
		t.Error("the certificate is good for any name")
	}
	start := time.Now()
	n.Reissue(nginxComponent)
	n.ReplaceCertificate(before)
	t.Logf("served by all %s after the Secret was deleted", time.Since(start).Round(time.Second))
	clients.stop()
	if after := n.masters(); !maps.Equal(masters, after) {
		t.Errorf("the master processes were %v and are %v", masters, after)
	}
	if after := n.UIDs(); !maps.Equal(uids, after) {
		t.Errorf("the pods were %v and are %v", uids, after)
	}
}

// askEvery leaves the machine to the other tests.
const askEvery = 50 * time.Millisecond

// mayAskAgain is how many connections may end before they were asked anything: one at a reload, and those whose way
// through the API server breaks.
const mayAskAgain = 4

// httpsClient asks over TLS again and again, each time on a new connection. When nginx reloads, it closes those on
// which nothing was asked yet; clients ask again then, as HTTP has it for what was never answered, and so does this
// one.
type httpsClient struct {
	*nginx
	cancel context.CancelFunc
	done   chan error
	ask    func() error
	// requests are how many were answered, of them some when asked again, under how many certificates.
	requests, again int
	serials         map[string]bool
}

func (n *nginx) startHTTPS(address string) *httpsClient {
	n.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(n.CACertificate())
	ctx, cancel := context.WithCancel(n.Ctx)
	c := &httpsClient{nginx: n, cancel: cancel, done: make(chan error, 1), serials: map[string]bool{}}
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{RootCAs: roots, ServerName: n.Host(), MinVersion: tls.VersionTLS12},
	}}
	c.ask = func() error { return c.request(client, address) }
	go func() {
		pace := time.NewTicker(askEvery)
		defer pace.Stop()
		for {
			select {
			case <-ctx.Done():
				c.done <- nil
				return
			case <-pace.C:
			}
			if err := c.ask(); err != nil {
				c.done <- err
				return
			}
		}
	}()
	return c
}

func (c *httpsClient) request(client *http.Client, address string) error {
	response, err := client.Get("https://" + address + "/")
	for tries := 0; unasked(err) && tries < mayAskAgain; tries++ {
		c.again++
		response, err = client.Get("https://" + address + "/")
	}
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK || !strings.Contains(string(body), "<html") {
		return fmt.Errorf("the answer is %s with %d bytes", response.Status, len(body))
	}
	c.requests++
	c.serials[response.TLS.PeerCertificates[0].SerialNumber.String()] = true
	return nil
}

// unasked says whether a connection ended before its request was answered.
func unasked(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)
}

// stop ends the client; the test fails when a request failed, or when it has seen one certificate alone.
func (c *httpsClient) stop() {
	c.Helper()
	c.cancel()
	err := <-c.done
	if err == nil {
		// Once more, now that the other certificate is served.
		err = c.ask()
	}
	if err != nil {
		c.Errorf("a request failed: %v", err)
	}
	c.Logf("%d requests under %d certificates, %d of them asked again", c.requests, len(c.serials), c.again)
	if c.again > mayAskAgain {
		c.Errorf("%d connections were closed before their request: a reload may meet one, and some ways to the pod may break",
			c.again)
	}
	if len(c.serials) != 2 {
		c.Errorf("the client has seen %d certificates, want the one before and the renewed one", len(c.serials))
	}
}
