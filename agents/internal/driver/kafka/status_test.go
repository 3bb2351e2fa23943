// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/IBM/sarama"

	"github.com/zeroinfra/agents/internal/driver"
)

// withoutControllers is a listener in front of a broker that drops what the broker would hand on to them.
type withoutControllers struct {
	net.Listener
	// connections that were made.
	connections atomic.Int32
}

func newWithoutControllers(t *testing.T, broker string) *withoutControllers {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	w := &withoutControllers{Listener: listener}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			w.connections.Add(1)
			go w.hand(connection, broker)
		}
	}()
	return w
}

// hand passes requests on, but for those about the quorum.
func (w *withoutControllers) hand(from net.Conn, broker string) {
	defer from.Close()
	to, err := net.Dial("tcp", broker)
	if err != nil {
		return
	}
	defer to.Close()
	go func() { _, _ = io.Copy(from, to) }()
	for {
		var size [4]byte
		if _, err := io.ReadFull(from, size[:]); err != nil {
			return
		}
		request := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(from, request); err != nil {
			return
		}
		if binary.BigEndian.Uint16(request) != keyDescribeQuorum {
			_, _ = to.Write(append(size[:], request...))
		}
	}
}

func TestABrokerTellsItsStatusWithoutControllers(t *testing.T) {
	broker := sarama.NewMockBroker(t, 1)
	t.Cleanup(broker.Close)
	broker.SetHandlerByMap(map[string]sarama.MockResponse{
		"ApiVersionsRequest": sarama.NewMockApiVersionsResponse(t).SetApiKeys(
			[]sarama.ApiVersionsResponseKey{{ApiKey: 60, MaxVersion: 2}, {ApiKey: 35, MaxVersion: 4}}),
		"DescribeLogDirsRequest": sarama.NewMockWrapper(&sarama.DescribeLogDirsResponse{Version: 4,
			LogDirs: []sarama.DescribeLogDirsResponseDirMetadata{
				{Path: "/volumes/1/kafka", ErrorCode: sarama.ErrKafkaStorageError}, {Path: "/data/kafka"}}}),
		"DescribeClusterRequest": sarama.NewMockWrapper(&sarama.DescribeClusterResponse{Version: 2,
			Brokers: []*sarama.DescribeClusterBroker{{BrokerID: 0}, {BrokerID: 1, IsFenced: true}, {BrokerID: 2}}}),
	})
	between := newWithoutControllers(t, broker.Addr())
	d := New(Options{Address: between.Addr().String(), Password: func() (string, error) { return "", nil }})
	// The quorum has half of it.
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	status, err := d.Query(ctx, driver.Statement{Text: Status, Access: driver.ReadOnly})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, column := range status.Columns {
		got = append(got, column+":"+*status.Rows[0][i])
	}
	if want := []string{"brokers:3", "alive:0 2", "logDirs:/data/kafka /volumes/1/kafka",
		"offlineDirs:/volumes/1/kafka"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if n := between.connections.Load(); n != 1 {
		t.Errorf("it logs in %d times", n)
	}
}
