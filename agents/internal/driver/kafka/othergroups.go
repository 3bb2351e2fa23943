// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"fmt"

	"github.com/IBM/sarama"
)

// Versions of the requests for groups that the library has not.
const (
	shareGroupVersion   = 1
	streamsGroupVersion = 0
)

// readOthers asks a coordinator about its share groups (KIP-932) and groups of Kafka Streams (KIP-1071), one after the
// other: what comes after the topics of a group need not be read then.
func (s *session) readOthers(coordinator int32, groups []*group) error {
	for _, g := range groups {
		key, version, read := int16(keyShareGroupDescribe), int16(shareGroupVersion), (*group).readShare
		switch g.kind {
		case typeShare:
		case typeStreams:
			key, version, read = keyStreamsGroupDescribe, streamsGroupVersion, (*group).readStreams
		default:
			continue
		}
		w, err := s.wireTo(coordinator)
		if err != nil {
			return err
		}
		// Nobody asks for what one is authorized to do.
		d, err := w.call(s.timeout(), key, version, append(encoder{}.length(1).text(g.name), 0).tags())
		if err != nil {
			return fmt.Errorf("cannot describe group %q: %w", g.name, err)
		}
		if err := g.readDescription(d, read); err != nil {
			return fmt.Errorf("cannot describe group %q: %w", g.name, err)
		}
	}
	return nil
}

// readDescription reads the beginning of the answer for one group, which is alike for all types, and then what is of
// its own.
func (g *group) readDescription(d *decoder, read func(*group, *decoder)) error {
	d.int32() // How long the broker holds the client back.
	if d.uvarint() != 2 {
		return errAnswer
	}
	problem := said(sarama.KError(d.int16()), d.text())
	d.text()
	if !g.isThere(problem) {
		return d.err
	}
	if state := d.text(); state != nil {
		g.state = *state
	}
	d.int32() // The epochs of the group and of the assignment.
	d.int32()
	read(g, d)
	return d.err
}

// readShare reads what members have subscribed to.
func (g *group) readShare(d *decoder) {
	d.text() // The assignor.
	d.each(func() {
		d.text()
		d.text()
		d.int32()
		d.text()
		d.text()
		for _, topic := range d.texts() {
			g.members[topic]++
		}
		d.each(func() {
			d.uuid()
			d.text()
			d.int32s()
			d.tags()
		})
		d.tags()
		d.tags()
	})
}

// readStreams reads what an application reads that has members: they have one topology.
func (g *group) readStreams(d *decoder) {
	if g.state == emptyState || g.state == deadState {
		return
	}
	if d.take(1)[0] != 1 {
		g.hidden = "its members have yet to say what they read"
		return
	}
	d.int32()
	d.each(func() {
		d.text()
		for _, topic := range d.texts() {
			g.members[topic] = 1
		}
		d.texts()
		d.skipTopics()
		d.skipTopics()
		d.tags()
	})
}

// skipTopics skips topics that an application has for itself, with their settings.
func (d *decoder) skipTopics() {
	d.each(func() {
		d.text()
		d.int32()
		d.int16()
		d.each(func() {
			d.text()
			d.text()
			d.tags()
		})
		d.tags()
	})
}
