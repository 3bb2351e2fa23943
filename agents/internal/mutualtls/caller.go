// SPDX-License-Identifier: Apache-2.0

package mutualtls

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

const (
	// http2 is all that is spoken.
	http2 = "h2"
	// agentSuffix ends the name in a pod's certificate, after the pod and its namespace.
	agentSuffix = ".agent.zeroinfra.github.com"
)

var (
	// operatorID is that of an operator of any domain. The CA is the domain's own.
	operatorID = regexp.MustCompile(`^spiffe://zeroinfra\.github\.com/operator/[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
	// podAndNamespace are two labels.
	podAndNamespace = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]*[a-z0-9])?)\.([a-z0-9]([a-z0-9-]*[a-z0-9])?)$`)
)

// Errors that a client that is not let in is told.
var (
	errNoCertificate = errors.New("the client has no certificate")
	errNoClient      = errors.New("the client's certificate is not for client authentication")
	errNobody        = errors.New("the client's certificate names neither an operator nor a pod")
	errNoOperator    = errors.New("the client's certificate does not name an operator")
)

// Caller is who holds a certificate: an operator, or the agent of a pod.
type Caller struct {
	// Pod and Namespace are empty for an operator.
	Pod, Namespace string
}

// Operator says whether an operator calls.
func (c Caller) Operator() bool { return c.Pod == "" }

// String names the caller in messages.
func (c Caller) String() string {
	if c.Operator() {
		return "an operator"
	}
	return "pod " + c.Namespace + "/" + c.Pod
}

// CallerOf says who is at the other end of a connection whose certificate chains to the CA.
func CallerOf(state tls.ConnectionState) (Caller, error) {
	if len(state.PeerCertificates) == 0 {
		return Caller{}, errNoCertificate
	}
	leaf := state.PeerCertificates[0]
	// A certificate without any extended key usage would pass the chain's check.
	if !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageClientAuth) {
		return Caller{}, errNoClient
	}
	if len(leaf.URIs) == 0 {
		return podOf(leaf)
	}
	if len(leaf.URIs) != 1 || len(leaf.DNSNames) != 0 || !operatorID.MatchString(leaf.URIs[0].String()) {
		return Caller{}, errNobody
	}
	return Caller{}, nil
}

// podOf reads the pod from the one name in its certificate.
func podOf(leaf *x509.Certificate) (Caller, error) {
	if len(leaf.DNSNames) != 1 || len(leaf.URIs) != 0 {
		return Caller{}, errNobody
	}
	name, ok := strings.CutSuffix(leaf.DNSNames[0], agentSuffix)
	match := podAndNamespace.FindStringSubmatch(name)
	if !ok || match == nil {
		return Caller{}, fmt.Errorf("%w: %q", errNobody, leaf.DNSNames[0])
	}
	return Caller{Pod: match[1], Namespace: match[3]}, nil
}

// Operators refuses everybody else.
func Operators(c Caller) error {
	if !c.Operator() {
		return errNoOperator
	}
	return nil
}

// OperatorsAndPods refuses nobody whose certificate names somebody.
func OperatorsAndPods(Caller) error { return nil }
