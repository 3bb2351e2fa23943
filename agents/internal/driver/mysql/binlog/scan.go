// SPDX-License-Identifier: Apache-2.0

package binlog

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"
)

// The format is that of https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_replication_binlog_event.html.
const (
	// headerBytes is the size of an event's header.
	headerBytes = 19
	// maxEvent bounds what is read of one event: others are passed over.
	maxEvent = 16 << 20
)

// Types of events that are looked at.
const (
	eventStop           = 3
	eventRotate         = 4
	eventFormat         = 15
	eventGTID           = 33
	eventAnonymousGTID  = 34
	eventPreviousGTIDs  = 35
	eventTaggedGTID     = 42
	checksumBytes       = 4
	checksumCRC32       = 1
	uuidBytes           = 16
	gtidFixed           = 1 + uuidBytes + 8
	gtidLogicalClock    = 1 + 8 + 8
	timestampBytes      = 7
	timestampHasTwo     = 1 << 55
	formatHeader        = 2 + 50 + 4 + 1
	maxPreviousInterval = 1 << 20
)

var (
	magic          = []byte{0xfe, 'b', 'i', 'n'}
	magicEncrypted = []byte{0xfd, 'b', 'i', 'n'}
)

// Head is what a log begins with.
type Head struct {
	// Began is when the server began it, in seconds.
	Began time.Time
	// Previous are the transactions of all logs before it.
	Previous Set
}

// Transaction of a log.
type Transaction struct {
	UUID   string
	Number int64
	// Committed is when its server committed it.
	Committed time.Time
	// Foreign says that another server committed it, and that this one followed.
	Foreign bool
	// Offset of its first event in the file.
	Offset int64
}

// scanner reads one log.
type scanner struct {
	from *bufio.Reader
	// at is the offset of the next event.
	at       int64
	checksum int
}

type event struct {
	kind  byte
	when  time.Time
	flags uint16
	// body without its checksum; nil for an event that is passed over.
	body []byte
	// offset of the event.
	offset int64
}

func newScanner(from io.Reader) (*scanner, error) {
	s := &scanner{from: bufio.NewReaderSize(from, 64<<10), at: int64(len(magic))}
	begins := make([]byte, len(magic))
	if _, err := io.ReadFull(s.from, begins); err != nil {
		return nil, fmt.Errorf("it has no beginning: %w", err)
	}
	switch {
	case bytes.Equal(begins, magicEncrypted):
		return nil, errors.New("it is encrypted: take binlog_encryption out")
	case !bytes.Equal(begins, magic):
		return nil, errors.New("it is no binary log")
	}
	return s, nil
}

// next reads an event; io.EOF is the end.
func (s *scanner) next() (event, error) {
	var header [headerBytes]byte
	if _, err := io.ReadFull(s.from, header[:]); err != nil {
		return event{}, err
	}
	size := int64(binary.LittleEndian.Uint32(header[9:]))
	e := event{kind: header[4], when: time.Unix(int64(binary.LittleEndian.Uint32(header[:])), 0).UTC(),
		flags: binary.LittleEndian.Uint16(header[17:]), offset: s.at}
	if size < headerBytes {
		return event{}, fmt.Errorf("the event at %d has %d bytes", s.at, size)
	}
	s.at += size
	switch e.kind {
	case eventFormat, eventGTID, eventPreviousGTIDs:
	default:
		_, err := io.CopyN(io.Discard, s.from, size-headerBytes)
		return e, cutOff(err)
	}
	if size > maxEvent {
		return event{}, fmt.Errorf("the event at %d has %d bytes", e.offset, size)
	}
	e.body = make([]byte, size-headerBytes)
	if _, err := io.ReadFull(s.from, e.body); err != nil {
		return event{}, cutOff(err)
	}
	if e.kind != eventFormat && s.checksum > 0 {
		if len(e.body) < s.checksum {
			return event{}, fmt.Errorf("the event at %d has no checksum", e.offset)
		}
		e.body = e.body[:len(e.body)-s.checksum]
	}
	return e, nil
}

// cutOff is the error of an event that is not whole.
func cutOff(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// head reads what a log begins with.
func (s *scanner) head() (Head, error) {
	format, err := s.next()
	if err != nil || format.kind != eventFormat || len(format.body) < formatHeader+1+checksumBytes {
		return Head{}, errors.Join(errors.New("it does not begin with a description of its format"), err)
	}
	// The last byte before the checksum, which this event always has, says whether others have one.
	if format.body[len(format.body)-checksumBytes-1] == checksumCRC32 {
		s.checksum = checksumBytes
	}
	previous, err := s.next()
	if err != nil || previous.kind != eventPreviousGTIDs {
		return Head{}, errors.Join(errors.New("it does not say which transactions come before it: gtid_mode is off"), err)
	}
	set, err := previousSet(previous.body)
	return Head{Began: format.when, Previous: set}, err
}

// previousSet reads a set of GTIDs in the server's binary form.
func previousSet(body []byte) (Set, error) {
	set, r := Set{}, bytes.NewReader(body)
	var servers uint64
	if err := binary.Read(r, binary.LittleEndian, &servers); err != nil {
		return nil, cutOff(err)
	}
	// A set with tags has its format in the highest byte.
	if servers>>56 != 0 {
		return nil, errors.New("it has GTIDs with tags, which are not supported")
	}
	for range servers {
		var uuid [uuidBytes]byte
		var count uint64
		err := errors.Join(binary.Read(r, binary.LittleEndian, &uuid), binary.Read(r, binary.LittleEndian, &count))
		if err != nil {
			return nil, cutOff(err)
		}
		if count > maxPreviousInterval {
			return nil, fmt.Errorf("it has %d intervals of GTIDs", count)
		}
		var all []interval
		for range count {
			// The end is the number after the last one.
			var ends [2]int64
			if err := binary.Read(r, binary.LittleEndian, &ends); err != nil {
				return nil, cutOff(err)
			}
			all = append(all, interval{ends[0], ends[1] - 1})
		}
		set[uuidText(uuid[:])] = merged(all)
	}
	return set, nil
}

func uuidText(b []byte) string {
	h := hex.EncodeToString(b)
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// transaction reads a GTID event.
func transaction(e event) (Transaction, error) {
	if len(e.body) < gtidFixed+gtidLogicalClock+timestampBytes {
		return Transaction{}, fmt.Errorf("the transaction at %d has no time: its server is older than MySQL 8.0", e.offset)
	}
	t := Transaction{UUID: uuidText(e.body[1 : 1+uuidBytes]),
		Number: int64(binary.LittleEndian.Uint64(e.body[1+uuidBytes:])), Offset: e.offset}
	times := e.body[gtidFixed+gtidLogicalClock:]
	committed := timestamp(times)
	if committed&timestampHasTwo != 0 {
		// Another server than the one that wrote the log committed it.
		if len(times) < 2*timestampBytes {
			return Transaction{}, fmt.Errorf("the transaction at %d is cut off", e.offset)
		}
		committed, t.Foreign = timestamp(times[timestampBytes:]), true
	}
	t.Committed = time.UnixMicro(int64(committed)).UTC()
	return t, nil
}

// timestamp is a number of seven bytes.
func timestamp(b []byte) uint64 {
	var whole [8]byte
	copy(whole[:], b[:timestampBytes])
	return binary.LittleEndian.Uint64(whole[:])
}

// ReadHead reads what a log begins with.
func ReadHead(from io.Reader) (Head, error) {
	s, err := newScanner(from)
	if err != nil {
		return Head{}, err
	}
	return s.head()
}

// Scan reads a whole log, calls each with its transactions, and returns its head and when it was closed. A log that is
// not closed ends with its last whole event.
func Scan(from io.Reader, each func(Transaction) error) (head Head, closed time.Time, err error) {
	s, err := newScanner(from)
	if err != nil {
		return Head{}, time.Time{}, err
	}
	if head, err = s.head(); err != nil {
		return Head{}, time.Time{}, err
	}
	for {
		e, err := s.next()
		if errors.Is(err, io.EOF) {
			return head, closed, nil
		}
		if err != nil {
			return Head{}, time.Time{}, err
		}
		switch e.kind {
		case eventRotate, eventStop:
			closed = e.when
		case eventTaggedGTID:
			return Head{}, time.Time{}, errors.New("it has GTIDs with tags, which are not supported")
		case eventAnonymousGTID:
			return Head{}, time.Time{}, errors.New("it has transactions without GTIDs")
		case eventGTID:
			t, err := transaction(e)
			if err == nil {
				err = each(t)
			}
			if err != nil {
				return Head{}, time.Time{}, err
			}
		}
	}
}
