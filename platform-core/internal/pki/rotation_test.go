// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"bytes"
	"crypto/x509"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// turning is an authority whose Secret is kept, and the certificate of one pod.
type turning struct {
	*testing.T
	*clock
	authority *Authority
	data      map[string][]byte
	leaf      []byte
	// asked is when somebody asked for a rotation; otherwise it comes by itself.
	asked time.Time
}

const turningName = "redis-a-main-0.team.agent.zeroinfra.github.com"

// step does what the operator does now, and returns when it looks again.
func (r *turning) step() time.Duration {
	r.Helper()
	due, err := RenewAt(r.data[corev1.TLSCertKey])
	if err != nil {
		r.Fatal(err)
	}
	if !r.asked.IsZero() {
		due, r.asked = r.asked, time.Time{}
	}
	trailing := func(signing *x509.Certificate) (bool, error) { return !SignedBy(r.leaf, signing), nil }
	next, wake, err := Advance("database", r.data, due, r.t, trailing)
	if err != nil {
		r.Fatal(err)
	}
	if _, err := r.authority.Follow(next); err != nil {
		r.Fatal(err)
	}
	r.data = next
	return wake
}

// renew has the pod get another certificate when it should.
func (r *turning) renew() {
	r.Helper()
	if r.authority.Keep(r.leaf, turningName, r.t) {
		return
	}
	leaf, _, _, err := r.authority.IssueServer([]string{turningName}, r.t)
	if err != nil {
		r.Fatal(err)
	}
	r.leaf = leaf
}

// At any time of a rotation whoever has the bundle of this step or of the one before knows every certificate that is
// shown.
func TestRotationIsNeverNoticed(t *testing.T) {
	c := startClock()
	authority := newAuthority(t, c)
	r := &turning{T: t, clock: c, authority: authority, data: authority.Data()}
	r.renew()
	due, err := RenewAt(r.data[corev1.TLSCertKey])
	if err != nil {
		t.Fatal(err)
	}
	first, bundles := r.authority.holds().signing, [][]byte{authority.Bundle()}
	for r.t.Before(due.Add(12 * time.Hour)) {
		wake := r.step()
		if wake <= 0 {
			t.Fatalf("at %s it looks again after %s", r.t, wake)
		}
		r.renew()
		if bundle := authority.Bundle(); !bytes.Equal(bundle, bundles[len(bundles)-1]) {
			bundles = append(bundles, bundle)
		}
		client, err := authority.ClientTLS(turningName).GetClientCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, bundle := range bundles[max(0, len(bundles)-2):] {
			pool := x509.NewCertPool()
			pool.AppendCertsFromPEM(bundle)
			usages := []x509.ExtKeyUsage{x509.ExtKeyUsageAny}
			for who, leaf := range map[string]*x509.Certificate{"the operator": client.Leaf, "the pod": parsed(t, r.leaf)} {
				if _, err := leaf.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: r.t, KeyUsages: usages}); err != nil {
					t.Errorf("%s after it is due %s is not known: %v", r.t.Sub(due), who, err)
				}
			}
		}
		// What has a long life is looked at once a month.
		r.t = r.t.Add(min(wake, 30*24*time.Hour))
	}
	signing := r.authority.holds().signing
	if signing.Equal(first) || !SignedBy(r.leaf, signing) || len(parsedAll(t, r.data[corev1.TLSCertKey])) != 1 {
		t.Errorf("it is not over: %d authorities are trusted", len(parsedAll(t, r.data[corev1.TLSCertKey])))
	}
	if len(bundles) != 4 {
		t.Errorf("there were %d bundles, want the first, with the next behind, with the first behind, the next", len(bundles))
	}
}

// An authority is trusted as long as a certificate bears its signature.
func TestAnAuthorityStaysWhileItIsNeeded(t *testing.T) {
	c := startClock()
	authority := newAuthority(t, c)
	r := &turning{T: t, clock: c, authority: authority, data: authority.Data(), asked: c.t}
	r.renew()
	for range 10 {
		r.t = r.t.Add(r.step())
	}
	if all := parsedAll(t, r.data[corev1.TLSCertKey]); len(all) != 2 ||
		authority.VerifyServer(r.leaf, turningName, r.t) != nil {
		t.Fatalf("%d authorities are trusted", len(all))
	}
	r.renew()
	r.step()
	if all := parsedAll(t, r.data[corev1.TLSCertKey]); len(all) != 1 {
		t.Errorf("%d authorities are trusted after the last certificate of the first is gone", len(all))
	}
}

// What another authority signed is not kept, however young the one is that signs now: where that follows a lost one,
// nobody trusts the other any more.
func TestACertificateOfALostAuthorityIsNotKept(t *testing.T) {
	c := startClock()
	leaf, _, _, err := newAuthority(t, c).IssueServer([]string{turningName}, c.t)
	if err != nil {
		t.Fatal(err)
	}
	authority := newAuthority(t, c)
	for _, age := range []time.Duration{0, Overlap - time.Second, Overlap + time.Second} {
		if authority.Keep(leaf, turningName, c.t.Add(age)) {
			t.Errorf("it is kept %s after the authority was made", age)
		}
	}
	own, _, _, err := authority.IssueServer([]string{turningName}, c.t)
	if err != nil {
		t.Fatal(err)
	}
	if !authority.Keep(own, turningName, c.t) {
		t.Error("its own is not kept")
	}
}

// What cannot be used changes nothing.
func TestFollowRefusesWhatCannotBeUsed(t *testing.T) {
	c := startClock()
	authority := newAuthority(t, c)
	before := authority.Bundle()
	other := newAuthority(t, c).Data()
	other[corev1.TLSPrivateKeyKey] = authority.Data()[corev1.TLSPrivateKeyKey]
	if changed, err := authority.Follow(other); err == nil || changed || !bytes.Equal(authority.Bundle(), before) {
		t.Errorf("a key of another certificate was taken up: %t, %v", changed, err)
	}
}

func parsed(t *testing.T, certPEM []byte) *x509.Certificate {
	t.Helper()
	return parsedAll(t, certPEM)[0]
}

func parsedAll(t *testing.T, certPEM []byte) []*x509.Certificate {
	t.Helper()
	certificates, err := parseCertificates(certPEM)
	if err != nil {
		t.Fatal(err)
	}
	return certificates
}
