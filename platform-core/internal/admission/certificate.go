// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"bytes"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/zeroinfra/platform-core/internal/pki"
)

// overlap is how long the next certificate is trusted before it is served, and the one before it afterwards: API
// servers and replicas take up a change within moments, unless they are cut off.
const overlap = time.Hour

// farthest is how far ahead anything is planned, since a machine's clock may be set.
const farthest = 24 * time.Hour

// Keys of the Secret. What is served now has the names that are usual.
const (
	authorityKey       = "ca.crt"
	nextPrefix         = "next-"
	previousKey        = "previous-" + authorityKey
	sinceKey           = "since"
	certificateKey     = corev1.TLSCertKey
	certificateFileKey = corev1.TLSPrivateKeyKey
)

// chain is the content of the Secret.
type chain struct {
	// current is served.
	current pki.Serving
	// next is trusted already; nil when it is not time.
	next *pki.Serving
	// previous authority, which is still trusted; empty when there is none.
	previous []byte
	// since is when current came to be served.
	since time.Time
}

// newChain makes the first certificate for a host.
func newChain(host string, now time.Time) (chain, error) {
	serving, err := pki.NewServing(host, now)
	return chain{current: serving, since: now}, err
}

func readChain(data map[string][]byte) chain {
	c := chain{
		current: pki.Serving{Authority: data[authorityKey], Certificate: data[certificateKey],
			Key: data[certificateFileKey]},
		previous: data[previousKey],
	}
	if data[nextPrefix+certificateKey] != nil {
		c.next = &pki.Serving{Authority: data[nextPrefix+authorityKey], Certificate: data[nextPrefix+certificateKey],
			Key: data[nextPrefix+certificateFileKey]}
	}
	// What cannot be read is long ago.
	c.since, _ = time.Parse(time.RFC3339, string(data[sinceKey]))
	return c
}

func (c chain) data() map[string][]byte {
	data := map[string][]byte{
		authorityKey: c.current.Authority, certificateKey: c.current.Certificate, certificateFileKey: c.current.Key,
		sinceKey: []byte(c.since.UTC().Format(time.RFC3339)),
	}
	if c.next != nil {
		maps.Copy(data, map[string][]byte{
			nextPrefix + authorityKey: c.next.Authority, nextPrefix + certificateKey: c.next.Certificate, nextPrefix +
				certificateFileKey: c.next.Key,
		})
	}
	if len(c.previous) > 0 {
		data[previousKey] = c.previous
	}
	return data
}

// trusted are the authorities to publish, as PEM.
func (c chain) trusted() []byte {
	parts := [][]byte{c.current.Authority}
	if c.next != nil {
		parts = append(parts, c.next.Authority)
	}
	return bytes.Join(append(parts, c.previous), nil)
}

// advance returns the chain as it has to be now, and how soon to look again. published says whether the API server was
// told to trust all of it: before that, the next certificate is not served. What cannot serve the host is made anew at
// once.
func (c chain) advance(host string, published bool, now time.Time) (chain, time.Duration, error) {
	if c.current.Check(host, now) != nil {
		fresh, err := newChain(host, now)
		return fresh, farthest, err
	}
	if len(c.previous) > 0 && now.Sub(c.since) >= overlap {
		c.previous = nil
	}
	if c.next != nil && c.next.Check(host, now) != nil {
		c.next = nil
	}
	switch renew, err := pki.RenewAt(c.current.Certificate); {
	case err != nil:
		return c, 0, err
	case c.next == nil && now.Before(renew):
		wake := renew.Sub(now)
		if len(c.previous) > 0 {
			wake = min(wake, c.since.Add(overlap).Sub(now))
		}
		return c, min(wake, farthest), nil
	case c.next == nil:
		next, err := pki.NewServing(host, now)
		c.next = &next
		return c, overlap, err
	}
	made, err := c.next.MadeAt()
	if err != nil {
		return c, 0, err
	}
	if left := made.Add(overlap).Sub(now); left > 0 {
		return c, left, nil
	}
	if !published {
		return c, time.Second, nil
	}
	return chain{current: *c.next, previous: c.current.Authority, since: now}, overlap, nil
}
