// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"errors"
	"net"
	"net/http"
	"testing"

	"github.com/zeroinfra/test/e2e/framework"
)

// TestSmokeCommon uses the samples of the common operator, a web server, and restarts that.
func TestSmokeCommon(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespaceWithOperator(t, framework.CommonOperator)
	all := s.ApplySamplesOf(framework.CommonOperator)
	for _, name := range all.Names("Application") {
		a := &framework.Application{Namespace: s, Name: name}
		waitForPage(a)
		s.RestartTarget(framework.CoreReference("Application", name))
		a.WaitReady()
		waitForPage(a)
	}
	all.DeleteAll()
	s.UninstallOperator(framework.CommonOperator)
}

// waitForPage waits until a web server answers a request that goes where its Service leads.
func waitForPage(a *framework.Application) {
	a.Helper()
	through := &http.Transport{DialContext: a.NewPortForwards().DialService, DisableKeepAlives: true}
	c := &http.Client{Transport: through, Timeout: framework.AnswerTimeout}
	a.Eventually(framework.SettleTimeout, "the web server answers", func() error {
		answer, err := c.Get("http://" + net.JoinHostPort(a.Name+"."+a.Namespace.Name, "8080") + "/")
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return errors.New(answer.Status)
		}
		return nil
	})
}
