// SPDX-License-Identifier: Apache-2.0

// Package certmanager knows the objects of cert-manager that the engine makes: which kinds they are, what their status
// says, and what to tell where cert-manager is not installed.
package certmanager

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/zeroinfra/platform-core/internal/render"
)

// Recheck is how soon an object that waits for cert-manager looks again.
const Recheck = 10 * time.Second

// Missing says what to do where cert-manager is not installed.
const Missing = "tls.enabled needs cert-manager, whose kinds Certificate and Issuer (cert-manager.io/v1) this " +
	"cluster does not have: " +
	"install cert-manager (https://cert-manager.io/docs/installation/), or take tls out; this goes on by itself then"

// Kinds are those that the engine makes.
var Kinds = []schema.GroupVersionKind{render.CertificateKind, render.IssuerKind}
