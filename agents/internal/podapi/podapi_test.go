// SPDX-License-Identifier: Apache-2.0

package podapi_test

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/zeroinfra/agents/internal/podapi"
	"github.com/zeroinfra/agents/internal/testpki"
)

// server is an API server's side of one patch.
type server struct {
	*httptest.Server

	mu     sync.Mutex
	token  string
	bodies []string
	paths  []string
}

func serve(t *testing.T) *server {
	t.Helper()
	s := &server{token: "first"}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(s.patch))
	t.Cleanup(s.Close)
	return s
}

func (s *server) patch(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Header.Get("Authorization") != "Bearer "+s.token {
		w.WriteHeader(http.StatusUnauthorized)
		io.WriteString(w, `{"kind":"Status","message":"Unauthorized"}`)
		return
	}
	if r.Method != http.MethodPatch || r.Header.Get("Content-Type") != "application/merge-patch+json" {
		w.WriteHeader(http.StatusUnsupportedMediaType)
		io.WriteString(w, "no JSON")
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.bodies, s.paths = append(s.bodies, string(body)), append(s.paths, r.URL.String())
	io.WriteString(w, `{"metadata":{}}`)
}

func (s *server) setToken(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = token
}

// account mounts a service account and points the environment at the server.
func account(t *testing.T, s *server) (*podapi.Pod, string) {
	t.Helper()
	dir := t.TempDir()
	mount(t, dir, s, "first")
	host, port, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"POD_NAME": "redis-a-0", "POD_NAMESPACE": "demo",
		"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port} {
		t.Setenv(name, value)
	}
	pod, err := podapi.FromEnvironment(dir)
	if err != nil {
		t.Fatal(err)
	}
	return pod, dir
}

func mount(t *testing.T, dir string, s *server, token string) {
	t.Helper()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	write(t, filepath.Join(dir, "ca.crt"), string(ca))
	write(t, filepath.Join(dir, "token"), token+"\n")
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAnnotate(t *testing.T) {
	s := serve(t)
	pod, _ := account(t, s)
	value := `{"health":"Healthy","message":"\"quoted\" <b>"}`
	if err := pod.Annotate(t.Context(), "example.com/report", value); err != nil {
		t.Fatal(err)
	}
	if got := s.paths[0]; got != "/api/v1/namespaces/demo/pods/redis-a-0?fieldManager=zeroinfra-status-agent" {
		t.Errorf("path is %s", got)
	}
	var body map[string]map[string]map[string]string
	if err := json.Unmarshal([]byte(s.bodies[0]), &body); err != nil {
		t.Fatal(err)
	}
	if len(body) != 1 || len(body["metadata"]) != 1 || len(body["metadata"]["annotations"]) != 1 ||
		body["metadata"]["annotations"]["example.com/report"] != value {
		t.Errorf("body is %s", s.bodies[0])
	}
}

func TestTokenIsReadAnew(t *testing.T) {
	s := serve(t)
	pod, dir := account(t, s)
	s.setToken("second")
	if err := pod.Annotate(t.Context(), "k", "v"); err == nil ||
		!strings.Contains(err.Error(), "401 Unauthorized: Unauthorized") || !strings.Contains(err.Error(), "demo/redis-a-0") {
		t.Errorf("got %v", err)
	}
	write(t, filepath.Join(dir, "token"), "second")
	if err := pod.Annotate(t.Context(), "k", "v"); err != nil {
		t.Error(err)
	}
}

func TestCAIsReadAnew(t *testing.T) {
	s := serve(t)
	pod, dir := account(t, s)
	write(t, filepath.Join(dir, "ca.crt"), string(testpki.New(t).PEM()))
	if err := pod.Annotate(t.Context(), "k", "v"); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a foreign CA: got %v", err)
	}
	write(t, filepath.Join(dir, "ca.crt"), "nothing")
	if err := pod.Annotate(t.Context(), "k", "v"); err == nil || !strings.Contains(err.Error(), "ca.crt") {
		t.Errorf("no CA: got %v", err)
	}
	mount(t, dir, s, "first")
	if err := pod.Annotate(t.Context(), "k", "v"); err != nil {
		t.Error(err)
	}
	if got := len(s.bodies); got != 1 {
		t.Errorf("%d requests got through", got)
	}
}

func TestFailures(t *testing.T) {
	s := serve(t)
	pod, dir := account(t, s)
	if err := os.Remove(filepath.Join(dir, "token")); err != nil {
		t.Fatal(err)
	}
	if err := pod.Annotate(t.Context(), "k", "v"); err == nil || !strings.Contains(err.Error(), "token") {
		t.Errorf("got %v", err)
	}
	mount(t, dir, s, "first")
	s.Close()
	if err := pod.Annotate(t.Context(), "k", "v"); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("got %v", err)
	}
}

func TestEnvironmentIsRequired(t *testing.T) {
	t.Setenv("POD_NAME", "a")
	for _, name := range []string{"POD_NAMESPACE", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"} {
		t.Setenv(name, "")
	}
	_, err := podapi.FromEnvironment("")
	if err == nil || !strings.Contains(err.Error(), "POD_NAMESPACE, KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT") {
		t.Errorf("got %v", err)
	}
}
