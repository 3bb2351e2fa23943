// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"testing"
	"time"

	"github.com/zeroinfra/platform-core/internal/pki"
)

const host = "webhook.system.svc"

// clients fails unless whoever trusts these authorities can call whoever serves this certificate.
func clients(t *testing.T, trusted []byte, serving pki.Serving, now time.Time) {
	t.Helper()
	block, _ := pem.Decode(serving.Certificate)
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(trusted)
	if _, err := certificate.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: now}); err != nil {
		t.Errorf("at %s: %v", now.Format(time.DateTime), err)
	}
}

// Over three years, an API server and a replica work together also while one of them has not heard of the last change
// yet.
func TestRotationNeverLeavesAnyoneOut(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	end := now.AddDate(3, 0, 0)
	c, err := newChain(host, now)
	if err != nil {
		t.Fatal(err)
	}
	rotations := 0
	for now.Before(end) {
		// What is kept is read back as it was.
		next, wake, err := readChain(c.data()).advance(host, true, now)
		if err != nil {
			t.Fatal(err)
		}
		if wake <= 0 || wake > farthest {
			t.Fatalf("looks again after %v", wake)
		}
		if !bytes.Equal(next.current.Certificate, c.current.Certificate) {
			rotations++
		}
		clients(t, c.trusted(), next.current, now)
		clients(t, next.trusted(), c.current, now)
		c = next
		now = now.Add(wake)
	}
	if rotations < 16 || rotations > 19 {
		t.Errorf("%d rotations in three years, want one in 60 days", rotations)
	}
	if len(c.previous) > 0 && now.Sub(c.since) > 2*overlap {
		t.Error("the authority from before is still trusted")
	}
}

func TestNextIsNotServedBeforeItIsTrusted(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c, err := newChain(host, now)
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(61 * 24 * time.Hour)
	c, wake, err := c.advance(host, true, now)
	if err != nil || c.next == nil || wake != overlap {
		t.Fatalf("no next certificate after 61 days: wakes in %v, %v", wake, err)
	}
	serial := c.current.Certificate
	for range 3 {
		now = now.Add(overlap)
		if c, wake, err = c.advance(host, false, now); err != nil || !bytes.Equal(c.current.Certificate, serial) ||
			wake != time.Second {
			t.Fatalf("served %v, looks again in %v, %v", !bytes.Equal(c.current.Certificate, serial), wake, err)
		}
	}
	if c, _, err = c.advance(host, true, now); err != nil || bytes.Equal(c.current.Certificate, serial) ||
		len(c.previous) == 0 || c.next != nil {
		t.Fatalf("it is trusted and not served: %v", err)
	}
	if c, _, err = c.advance(host, true, now.Add(overlap)); err != nil || len(c.previous) > 0 {
		t.Errorf("the one before is trusted for ever: %v", err)
	}
}

// What cannot be used is made anew at once, whatever it was.
func TestWhatIsBrokenIsMadeAnew(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	good, err := newChain(host, now)
	if err != nil {
		t.Fatal(err)
	}
	other, err := newChain("elsewhere.system.svc", now)
	if err != nil {
		t.Fatal(err)
	}
	mixed := good
	mixed.current.Key = other.current.Key
	foreign := good
	foreign.current.Authority = other.current.Authority
	for name, test := range map[string]struct {
		chain chain
		at    time.Time
		anew  bool
	}{
		"good":  {good, now, false},
		"empty": {readChain(nil), now, true},
		"garbage": {readChain(map[string][]byte{certificateKey: []byte("x"), certificateFileKey: []byte("y")}), now,
			true},
		"another host":      {other, now, true},
		"another key":       {mixed, now, true},
		"another authority": {foreign, now, true},
		"expired":           {good, now.Add(pki.ServerLife + time.Second), true},
	} {
		t.Run(name, func(t *testing.T) {
			got, _, err := test.chain.advance(host, true, test.at)
			if err != nil {
				t.Fatal(err)
			}
			if anew := !bytes.Equal(got.current.Certificate, test.chain.current.Certificate); anew != test.anew {
				t.Errorf("made anew: %v, want %v", anew, test.anew)
			}
			clients(t, got.trusted(), got.current, test.at)
		})
	}
}
