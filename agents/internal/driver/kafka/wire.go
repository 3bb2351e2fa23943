// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/IBM/sarama"

	"github.com/zeroinfra/agents/internal/driver"
)

// Requests that the library has not, or whose answers it keeps to itself: their keys in Kafka's protocol. All versions
// that are used here have the flexible encoding (KIP-482).
const (
	keyAPIVersions                 = 18
	keyAlterReplicaLogDirs         = 34
	keyAlterPartitionReassignments = 45
	keyListPartitionReassignments  = 46
	keyDescribeQuorum              = 55
	keyUnregisterBroker            = 64
	keyShareGroupDescribe          = 77
	keyAddRaftVoter                = 80
	keyRemoveRaftVoter             = 81
	keyStreamsGroupDescribe        = 89
)

const (
	// describeQuorumVersion tells of directories (KIP-853).
	describeQuorumVersion = 2
	// maxWireAnswer bounds an answer, in bytes.
	maxWireAnswer = 4 << 20
	// maxWireItems bounds an array of an answer.
	maxWireItems = 1 << 20
)

// wire is a connection on which the library has logged in. While a request of the wire is under way, the library sends
// nothing: it reads the connection only after a request of its own.
type wire struct {
	broker     *sarama.Broker
	connection net.Conn
	// raw is the connection below TLS.
	raw  net.Conn
	last int32
}

// call sends a request to the broker of the pod, which hands it on to the controller, and returns the body of the
// answer. Where the metadata is in ZooKeeper nobody hands on, and the controller is asked itself.
func (s *session) call(key, version int16, body encoder) (*decoder, error) {
	if err := s.turnToController(); err != nil {
		return nil, err
	}
	return s.callWithin(s.dialer.left(), key, version, body)
}

// callWithin is call with a time of its own.
func (s *session) callWithin(limit time.Duration, key, version int16, body encoder) (*decoder, error) {
	return s.wire.call(limit, key, version, body)
}

// call sends a request to who is at the other end, and returns the body of the answer.
func (w *wire) call(limit time.Duration, key, version int16, body encoder) (*decoder, error) {
	driver.Renew(w.raw)
	w.last++
	var request encoder
	request = request.int16(key).int16(version).int32(w.last).int16(int16(len(clientID)))
	request = append(append(request, clientID...), 0)
	request = append(request, body...)
	if err := w.connection.SetDeadline(time.Now().Add(limit)); err != nil {
		return nil, err
	}
	if _, err := w.connection.Write(append(encoder{}.int32(int32(len(request))), request...)); err != nil {
		return nil, fmt.Errorf("cannot ask Kafka: %w", err)
	}
	var size [4]byte
	if _, err := io.ReadFull(w.connection, size[:]); err != nil {
		return nil, fmt.Errorf("kafka does not answer: %w", err)
	}
	length := binary.BigEndian.Uint32(size[:])
	if length > maxWireAnswer {
		return nil, fmt.Errorf("kafka answers with %d bytes, and at most %d are taken", length, maxWireAnswer)
	}
	answer := make([]byte, length)
	if _, err := io.ReadFull(w.connection, answer); err != nil {
		return nil, fmt.Errorf("kafka does not answer: %w", err)
	}
	d := &decoder{data: answer}
	if id := d.int32(); id != w.last {
		return nil, errAnswer
	}
	// Of the answer that tells of versions the head has none: who asks may know no version that has (KIP-511).
	if key != keyAPIVersions {
		d.tags()
	}
	return d, d.err
}

// redirect has calls go to an address from now on.
func (s *session) redirect(address string) error {
	broker, err := s.open(address)
	if err != nil {
		return err
	}
	if s.wire.broker != s.local {
		_ = s.wire.broker.Close()
	}
	s.wire = s.dialer.wireOf(broker)
	return nil
}

// encoder appends values in the flexible encoding.
type encoder []byte

func (e encoder) int16(v int16) encoder { return binary.BigEndian.AppendUint16(e, uint16(v)) }

func (e encoder) int32(v int32) encoder { return binary.BigEndian.AppendUint32(e, uint32(v)) }

// length of an array or text that is there.
func (e encoder) length(n int) encoder { return binary.AppendUvarint(e, uint64(n)+1) }

// null array or text.
func (e encoder) null() encoder { return append(e, 0) }

func (e encoder) text(s string) encoder { return append(e.length(len(s)), s...) }

func (e encoder) uuid(id [16]byte) encoder { return append(e, id[:]...) }

// tags that nothing is said in.
func (e encoder) tags() encoder { return append(e, 0) }

var errAnswer = errors.New("the answer of Kafka has another form than this agent knows")

// decoder reads values in the flexible encoding. After an error all values are zero.
type decoder struct {
	data []byte
	err  error
}

// take returns the next n bytes; zeros when there are fewer.
func (d *decoder) take(n int) []byte {
	if d.err == nil && (n < 0 || n > len(d.data)) {
		d.err = errAnswer
	}
	if d.err != nil {
		return make([]byte, min(max(n, 0), 16))
	}
	taken := d.data[:n]
	d.data = d.data[n:]
	return taken
}

func (d *decoder) int16() int16 { return int16(binary.BigEndian.Uint16(d.take(2))) }

func (d *decoder) int32() int32 { return int32(binary.BigEndian.Uint32(d.take(4))) }

func (d *decoder) int64() int64 { return int64(binary.BigEndian.Uint64(d.take(8))) }

func (d *decoder) uvarint() int {
	if d.err != nil {
		return 0
	}
	value, n := binary.Uvarint(d.data)
	if n <= 0 || value > maxWireItems {
		d.err = errAnswer
		return 0
	}
	d.data = d.data[n:]
	return int(value)
}

// text that is there or not.
func (d *decoder) text() *string {
	n := d.uvarint()
	if n == 0 {
		return nil
	}
	text := string(d.take(n - 1))
	return &text
}

func (d *decoder) uuid() (id [16]byte) {
	copy(id[:], d.take(len(id)))
	return id
}

// each reads the items of an array.
func (d *decoder) each(item func()) {
	for n := d.uvarint() - 1; n > 0 && d.err == nil; n-- {
		item()
	}
}

// int32s are an array of numbers.
func (d *decoder) int32s() (all []int32) {
	d.each(func() { all = append(all, d.int32()) })
	return all
}

// texts that are there.
func (d *decoder) texts() (all []string) {
	d.each(func() {
		if text := d.text(); text != nil {
			all = append(all, *text)
		}
	})
	return all
}

// tags are skipped.
func (d *decoder) tags() {
	for n := d.uvarint(); n > 0 && d.err == nil; n-- {
		d.uvarint()
		d.take(d.uvarint())
	}
}

// textOf an identifier, as Kafka writes it.
func textOf(id [16]byte) string { return base64.RawURLEncoding.EncodeToString(id[:]) }

func parseID(text string) (id [16]byte, err error) {
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(data) != len(id) {
		return id, fmt.Errorf("%q is no identifier of a directory: it has 22 letters, as meta.properties says it in "+
			"directory.id", text)
	}
	return [16]byte(data), nil
}
