// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/zeroinfra/agents/internal/command"
	"github.com/zeroinfra/agents/internal/planfile"
	"github.com/zeroinfra/agents/internal/reaper"
	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// noAnswer is the exit code of a request without an answer.
const noAnswer = 1

// client makes each request on a connection of its own, as clients of the middleware do that come anew. Like the
// kubelet it does not look at certificates, and takes a redirection for an answer.
var client = &http.Client{
	Transport: &http.Transport{
		DisableKeepAlives:  true,
		DisableCompression: true,
		TLSClientConfig: &tls.Config{
			InsecureSkipVerify: true, //nolint:gosec // Both ends are in the pod.
			// A session that goes on, and curves without a post-quantum part, save most of what a handshake costs.
			ClientSessionCache: tls.NewLRUClientSessionCache(1),
			CurvePreferences:   []tls.CurveID{tls.X25519, tls.CurveP256, tls.CurveP384, tls.CurveP521},
		},
	},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// request makes the request of a plan. describe says more of a middleware that is healthy.
func (p *Probe) request(ctx context.Context, h *plan.HTTPProbe, describe func(map[string]any) Outcome) Outcome {
	timeout := planfile.Seconds(cmp.Or(h.TimeoutSeconds, p.plan.TimeoutSeconds), DefaultSeconds)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	status, body, err := get(ctx, address(h))
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return Outcome{Cause: CauseTimeout, Message: fmt.Sprintf("the probe got no answer within %v", timeout)}
	case errors.Is(err, command.ErrTooMuchOutput):
		return Outcome{Cause: CauseStart, Message: fmt.Sprintf("the probe got an answer of more than %d KiB",
			command.MaxOutput>>10)}
	case err != nil:
		return p.expressions.judge(command.Result{Stderr: err.Error(), Exit: reaper.Exit{Code: noAnswer}}, "no answer",
			describe)
	}
	result := command.Result{Stdout: body}
	if status < http.StatusOK || status >= http.StatusBadRequest {
		result.Exit.Code = status
	}
	return p.expressions.judge(result, "status "+strconv.Itoa(status), describe)
}

func address(h *plan.HTTPProbe) string {
	scheme := "http"
	if h.TLS {
		scheme = "https"
	}
	return scheme + "://" + net.JoinHostPort("localhost", strconv.Itoa(int(h.Port))) + h.Path
}

// get returns the status and what was answered.
func get(ctx context.Context, address string) (status int, body string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, "", err
	}
	response, err := client.Do(request)
	if err != nil {
		// What it was about says nothing new.
		if of, is := errors.AsType[*url.Error](err); is {
			err = of.Err
		}
		return 0, "", err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, command.MaxOutput+1))
	if err == nil && len(data) > command.MaxOutput {
		err = command.ErrTooMuchOutput
	}
	return response.StatusCode, strings.ToValidUTF8(string(data), "?"), err
}
