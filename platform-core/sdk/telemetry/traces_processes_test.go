// SPDX-License-Identifier: Apache-2.0

//go:build processes

package telemetry

import (
	"net"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// A receiver that is away holds up nobody.
func TestAReceiverThatIsAway(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	endpoint := "http://" + listener.Addr().String()
	_ = listener.Close()
	traces := sender(t, "grpc", endpoint)
	begun := time.Now()
	for i := range 10000 {
		op := failedRestart()
		op.Name, op.UID = op.Name+string(rune('a'+i%26)), types.UID(string(op.UID)+string(rune('a'+i%26)))
		traces.Ended(op)
	}
	if took := time.Since(begun); took > flush {
		t.Errorf("it took %s", took)
	}
	traces.Shutdown(t.Context())
	if took := time.Since(begun); took > 2*flush {
		t.Errorf("with the end of the process it took %s", took)
	}
}
