// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/zeroinfra/agents/internal/testpki"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

// Nobody can ask for less than nothing of the log.
func TestANegativeTailIsRefused(t *testing.T) {
	p, ca := serve(t, nil), testpki.New(t)
	ca.MountLeaf(t, p.tlsDir, testpki.Pod("set-1", "default"), ca)
	c := connect(t, p.address("tcp"), ca.ClientConfig(t, ca, testpki.Client(testpki.Operator)))
	stream, err := c.Logs(deadline(t), &agentv1.LogsRequest{TailBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	_, err = stream.Recv()
	if got := status.Convert(err); got.Code() != codes.InvalidArgument ||
		got.Message() != "tail_bytes is -1; it cannot be negative" {
		t.Errorf("it says %v", err)
	}
}
