// SPDX-License-Identifier: Apache-2.0

package group

import (
	"context"
	"crypto/tls"
	"time"

	"github.com/zeroinfra/agents/internal/driver"
)

// certificateEnd is how a server writes when its certificate ends.
const certificateEnd = "Jan _2 15:04:05 2006 MST"

// outdated says whether a member shows the others a certificate that ends before the one for clients. ALTER INSTANCE
// RELOAD TLS has it take over a renewed one for clients alone: for the others it does so when it joins the group. Of
// one that cannot be asked nobody knows, and it is left as it is.
func (g *Group) outdated(ctx context.Context, pod, end string) bool {
	if g.CAFile == "" {
		return false
	}
	renewed, err := time.Parse(certificateEnd, end)
	if err != nil {
		return false
	}
	config, err := driver.TLS(g.CAFile)
	if err != nil {
		return false
	}
	address := g.Channel(pod)
	config = driver.Named(config, address)
	verify, shown := config.VerifyConnection, time.Time{}
	config.VerifyConnection = func(state tls.ConnectionState) error {
		err := verify(state)
		if err == nil {
			shown = state.PeerCertificates[0].NotAfter
		}
		return err
	}
	// What the member thinks of a caller without a certificate comes after it has shown its own.
	if connection, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", address); err == nil {
		_ = connection.Close()
	}
	return !shown.IsZero() && shown.Before(renewed)
}
