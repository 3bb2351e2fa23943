// SPDX-License-Identifier: Apache-2.0

//go:build integration

package operator_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// An operator that is started while the API server is away lives, is not ready, and works as soon as there is one.
func TestAnOperatorWaitsForTheAPIServer(t *testing.T) {
	namespace := env.Namespace(t)
	elsewhere := *accountOf(t, namespace)
	server, err := url.Parse(elsewhere.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	address := testkit.FreeAddress(t)
	elsewhere.Config = rest.CopyConfig(elsewhere.Config)
	elsewhere.Config.Host = "https://" + address
	p := run(t, namespace, "--kubeconfig="+env.KubeconfigOf(t, &elsewhere))
	testkit.Eventually(t, "a log line about it", func(context.Context) error {
		if !strings.Contains(p.output.String(), "waiting for the API server") {
			return errors.New("none yet")
		}
		return nil
	})
	if _, err := testkit.Get(t.Context(), "http://"+p.health+"/healthz"); err != nil {
		t.Errorf("it does not live: %v", err)
	}
	if _, err := testkit.Get(t.Context(), "http://"+p.health+"/readyz"); err == nil {
		t.Error("it is ready without an API server")
	}
	forward(t, address, server.Host)
	p.waitReady()
}

// forward carries connections to an address on to another until the test ends.
func forward(t *testing.T, from, to string) {
	t.Helper()
	listener, err := net.Listen("tcp", from)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() }) // It ends with the test.
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				_ = near.Close() // The caller sees that nobody is there.
				continue
			}
			for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
				go func() {
					_, _ = io.Copy(way[0], way[1]) // Until either side ends it.
					_, _ = way[0].Close(), way[1].Close()
				}()
			}
		}
	}()
}
