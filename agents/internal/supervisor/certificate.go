// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/zeroinfra/agents/internal/planfile"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

const (
	// certificateInterval is the time between looks at the certificate: a link is read, and the files only when it leads
	// elsewhere.
	certificateInterval = time.Second
	// renewalRetry is how soon a certificate that the process did not take over is given to it again.
	renewalRetry = 10 * time.Second
)

// certificate is what the supervisor knows of the certificate that the process serves.
type certificate struct {
	// ticker of the looks; nil where the plan has no TLS.
	ticker *time.Ticker
	// seen tells the files of the last look from the next.
	seen string
	// mounted is the content at the last look, and digest that of the certificate alone.
	mounted, digest string
	// taken is the content that the process has, and served the digest of its certificate.
	taken, served string
	// renewal is under way when it is not nil: it gives its outcome once.
	renewal chan error
	cancel  context.CancelFunc
	// giving is the content, and its digest, that the renewal gives to the process.
	giving, givingDigest string
	// retry is when a renewal that failed may be tried again.
	retry time.Time
}

func (s *Supervisor) certificateTick() <-chan time.Time {
	if s.certificate.ticker == nil {
		return nil
	}
	return s.certificate.ticker.C
}

func (s *Supervisor) renewalDone() <-chan error { return s.certificate.renewal }

// certificateStarts notes the certificate that a process reads when it is started. The files may change while it does:
// the next look finds that then.
func (s *Supervisor) certificateStarts(next *planfile.Prepared) {
	c := &s.certificate
	s.cancelRenewal()
	if c.ticker != nil {
		c.ticker.Stop()
	}
	*c = certificate{}
	if next.Plan.TLS == nil {
		return
	}
	c.ticker = time.NewTicker(certificateInterval)
	s.lookAtCertificate()
	c.taken, c.served = c.mounted, c.digest
}

// lookAtCertificate reads the files when they are not those of the last look. The kubelet swaps all of them at once, by
// a link.
func (s *Supervisor) lookAtCertificate() {
	c := &s.certificate
	seen, err := seenFiles(s.dirs.Certificates)
	if err == nil && seen == c.seen {
		return
	}
	var all [][]byte
	for _, name := range []string{plan.CertificateFile, plan.KeyFile, plan.CAFile} {
		if err != nil {
			break
		}
		var data []byte
		data, err = os.ReadFile(filepath.Join(s.dirs.Certificates, name))
		all = append(all, data)
	}
	if err == nil {
		// Files of two versions were never there together.
		var after string
		after, err = seenFiles(s.dirs.Certificates)
		if err == nil && after != seen {
			return
		}
	}
	if err != nil {
		s.log.Error("cannot read the certificate", "error", err.Error())
		return
	}
	sum := sha256.Sum256(all[0])
	c.seen, c.digest = seen, "sha256:"+hex.EncodeToString(sum[:])
	c.mounted = digestOf(all...)
}

func seenFiles(dir string) (string, error) {
	seen := ""
	for _, name := range []string{plan.CertificateFile, plan.KeyFile, plan.CAFile} {
		path, err := filepath.EvalSymlinks(filepath.Join(dir, name))
		if err != nil {
			return "", err
		}
		info, err := os.Stat(path)
		if err != nil {
			return "", err
		}
		seen += fmt.Sprintf("%s %d %d\n", path, info.Size(), info.ModTime().UnixNano())
	}
	return seen, nil
}

func digestOf(parts ...[]byte) string {
	sum := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(sum, "%d\n", len(part))
		sum.Write(part)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// onCertificateTick has the process take over a certificate that is not the one it has.
func (s *Supervisor) onCertificateTick() {
	s.lookAtCertificate()
	c := &s.certificate
	// A process that is not up is not asked, and one that starts has read the files.
	if c.mounted == c.taken || c.renewal != nil || s.reload != nil || s.state != running || time.Now().Before(c.retry) {
		return
	}
	how := s.prepared.Plan.TLS.Reload
	if how == nil {
		s.log.Info("certificate renewed; the process reads it by itself", "certificateDigest", c.digest)
		c.taken, c.served = c.mounted, c.digest
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	c.renewal, c.cancel, c.giving, c.givingDigest = done, cancel, c.mounted, c.digest
	if how.Signal != "" {
		// The name was checked when the plan was read.
		sig, _ := planfile.Signal(how.Signal)
		done <- s.process.Signal(sig)
		return
	}
	launcher, prepared := s.launcher, s.prepared
	go func() { done <- launcher.Renew(ctx, prepared) }()
}

// onRenewed: the process has taken over the certificate, or not.
func (s *Supervisor) onRenewed(err error) {
	c := &s.certificate
	c.cancel()
	c.renewal = nil
	if err != nil {
		s.log.Error("the process did not take over the renewed certificate; it is tried again", "error", err.Error())
		c.retry = time.Now().Add(renewalRetry)
		return
	}
	c.taken, c.served = c.giving, c.givingDigest
	s.log.Info("certificate renewed", "certificateDigest", c.served)
}

// cancelRenewal ends a renewal that is under way: the process ends, too.
func (s *Supervisor) cancelRenewal() {
	if s.certificate.renewal != nil {
		s.certificate.cancel()
		s.certificate.renewal = nil
	}
}
