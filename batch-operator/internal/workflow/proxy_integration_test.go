// SPDX-License-Identifier: Apache-2.0

//go:build integration

package workflow

import (
	"encoding/pem"
	"io"
	"log"
	"net/http/httptest"
	"net/http/httputil"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// through returns the account of the operator at a proxy, which sends requests on by a Transport. A process can use it.
func through(t testing.TB, transport *testkit.Transport) *testkit.Operator {
	t.Helper()
	// The token is in each request.
	plain := rest.AnonymousClientConfig(env.System.Config)
	server, _, err := rest.DefaultServerUrlFor(plain)
	if err != nil {
		t.Fatal(err)
	}
	next, err := rest.TransportFor(plain)
	if err != nil {
		t.Fatal(err)
	}
	// A client that is killed is no news.
	silent := log.New(io.Discard, "", 0)
	proxy := httptest.NewUnstartedServer(&httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(server) },
		Transport:     transport.Wrap(next),
		FlushInterval: -1,
		ErrorLog:      silent,
	})
	proxy.EnableHTTP2, proxy.Config.ErrorLog = true, silent
	proxy.StartTLS()
	t.Cleanup(func() {
		proxy.CloseClientConnections()
		proxy.Close()
	})
	account := rest.CopyConfig(env.System.Config)
	account.Host = proxy.URL
	account.TLSClientConfig = rest.TLSClientConfig{
		CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: proxy.Certificate().Raw})}
	return &testkit.Operator{Config: account, User: env.System.User}
}
