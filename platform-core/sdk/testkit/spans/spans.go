// SPDX-License-Identifier: Apache-2.0

// Package spans receives traces in tests, as a collector of OpenTelemetry does.
package spans

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	v1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// Receiver takes what is sent by OTLP until the test ends. It is safe for concurrent use.
type Receiver struct {
	collector.UnimplementedTraceServiceServer
	// Endpoint is its URL, as OTEL_EXPORTER_OTLP_ENDPOINT takes it.
	Endpoint string

	mu  sync.Mutex
	got []*collector.ExportTraceServiceRequest
}

// OverGRPC starts a Receiver of OTLP over gRPC, without TLS.
func OverGRPC(t testing.TB) *Receiver {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &Receiver{Endpoint: "http://" + listener.Addr().String()}
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, r)
	go func() { _ = server.Serve(listener) }() // It ends with the test.
	t.Cleanup(server.Stop)
	return r
}

// OverHTTP starts a Receiver of OTLP over HTTP, in protobuf and without TLS. What is no such request fails the test.
func OverHTTP(t testing.TB) *Receiver {
	t.Helper()
	r := &Receiver{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		sent := &collector.ExportTraceServiceRequest{}
		if err != nil || request.URL.Path != "/v1/traces" || proto.Unmarshal(body, sent) != nil {
			t.Errorf("%s %s: %v", request.Method, request.URL, err)
		}
		r.keep(sent)
	}))
	t.Cleanup(server.Close)
	r.Endpoint = server.URL
	return r
}

// Export implements the service of OTLP.
func (r *Receiver) Export(_ context.Context,
	request *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	r.keep(request)
	return &collector.ExportTraceServiceResponse{}, nil
}

func (r *Receiver) keep(request *collector.ExportTraceServiceRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, request)
}

// Take returns the spans that came since the last call, in the order in which they came, and the text attributes of
// those who sent them.
func (r *Receiver) Take() (spans []*v1.Span, senders map[string]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	senders = map[string]string{}
	for _, request := range r.got {
		for _, resource := range request.ResourceSpans {
			for _, a := range resource.Resource.Attributes {
				senders[a.Key] = a.Value.GetStringValue()
			}
			for _, scope := range resource.ScopeSpans {
				spans = append(spans, scope.Spans...)
			}
		}
	}
	r.got = nil
	return spans, senders
}

// Attributes of a span by name: texts as string, numbers as int64 without what is behind the point, and of a list its
// first element.
func Attributes(span *v1.Span) map[string]any {
	found := map[string]any{}
	for _, a := range span.Attributes {
		switch list := a.Value.GetArrayValue().GetValues(); {
		case len(list) > 0:
			found[a.Key] = list[0].GetStringValue()
		case a.Value.GetStringValue() != "":
			found[a.Key] = a.Value.GetStringValue()
		default:
			found[a.Key] = a.Value.GetIntValue() + int64(a.Value.GetDoubleValue())
		}
	}
	return found
}
