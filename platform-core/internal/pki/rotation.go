// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/x509"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Overlap is how long an authority is published before it signs, and the one before it at least afterwards: a kubelet
// brings a changed Secret to its pods within minutes.
const Overlap = time.Hour

// Keys in the Secret of the authority that is to follow.
const (
	nextCertKey = "next.crt"
	nextKeyKey  = "next.key"
)

// Advance returns the data that the Secret of an authority has to have now, and how long that stays so. Beyond the time
// due another authority follows: it is trusted at once and signs after Overlap. The one before it is trusted after that
// for another Overlap, and until trailing, which is only asked then, says that no certificate bears its signature any
// more.
func Advance(domain string, data map[string][]byte, due, now time.Time,
	trailing func(signing *x509.Certificate) (bool, error)) (map[string][]byte, time.Duration, error) {
	certificates, err := parseCertificates(data[corev1.TLSCertKey])
	if err != nil {
		return nil, 0, fmt.Errorf("cannot read %s: %w", corev1.TLSCertKey, err)
	}
	signing, wanted := certificates[0], maps.Clone(data)
	switch left := madeAt(signing).Add(2 * Overlap).Sub(now); {
	case data[nextCertKey] != nil:
		next, err := parseCertificates(data[nextCertKey])
		if err != nil {
			return nil, 0, fmt.Errorf("cannot read %s: %w", nextCertKey, err)
		}
		if left := madeAt(next[0]).Add(Overlap).Sub(now); left > 0 {
			return wanted, left, nil
		}
		delete(wanted, nextCertKey)
		delete(wanted, nextKeyKey)
		wanted[corev1.TLSCertKey], wanted[corev1.TLSPrivateKeyKey] = bundleOf(next[0], signing), data[nextKeyKey]
		return wanted, Overlap, nil
	case len(certificates) > 1 && left > 0:
		return wanted, left, nil
	case len(certificates) > 1:
		needed, err := trailing(signing)
		if err == nil && !needed {
			wanted[corev1.TLSCertKey] = bundleOf(signing)
		}
		return wanted, Overlap, err
	case now.Before(due):
		return wanted, due.Sub(now), nil
	}
	made, err := Generate(domain, now)
	if err != nil {
		return nil, 0, err
	}
	wanted[nextCertKey], wanted[nextKeyKey] = made[corev1.TLSCertKey], made[corev1.TLSPrivateKeyKey]
	wanted[corev1.TLSCertKey] = append(bundleOf(signing), made[corev1.TLSCertKey]...)
	return wanted, Overlap, nil
}

// SignedBy says whether the first certificate in the PEM is signed by an authority's own certificate.
func SignedBy(certPEM []byte, signing *x509.Certificate) bool {
	certificates, err := parseCertificates(certPEM)
	return err == nil && certificates[0].CheckSignatureFrom(signing) == nil
}

// Expired says whether the first certificate in the PEM is good for nothing any more.
func Expired(certPEM []byte, now time.Time) bool {
	certificates, err := parseCertificates(certPEM)
	return err != nil || now.After(certificates[0].NotAfter)
}

// Keep says whether the certificate of a pod's agents is to stay: it is trusted, its time has not come, and the
// authority that signs now either signed it or is too young for everybody to know it.
func (a *Authority) Keep(certPEM []byte, name string, now time.Time) bool {
	renew, err := RenewAgentAt(certPEM)
	if err != nil || !now.Before(renew) || a.VerifyServer(certPEM, name, now) != nil {
		return false
	}
	signing := a.holds().signing
	return SignedBy(certPEM, signing) || now.Before(madeAt(signing).Add(Overlap))
}

func madeAt(certificate *x509.Certificate) time.Time { return certificate.NotBefore.Add(backdate) }

func bundleOf(certificates ...*x509.Certificate) []byte {
	var bundle []byte
	for _, certificate := range certificates {
		bundle = append(bundle, encodeCertificate(certificate.Raw)...)
	}
	return bundle
}
