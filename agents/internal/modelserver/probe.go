// SPDX-License-Identifier: Apache-2.0

package modelserver

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// Exit codes of a probe. A pod's report is written anew when the code changes, so each tenth of a download has its own.
const (
	// ExitSilent: the server does not answer.
	ExitSilent = 2
	// ExitFailed: the server cannot be started.
	ExitFailed = 3
	// ExitVerifying and nine more: tenths of a file that is verified.
	ExitVerifying = 10
	// ExitDownloading and ten more: tenths of a download.
	ExitDownloading = 20
	// ExitAdapter and ten more: tenths of the first adapter, downloaded or verified. Eleven codes on is the next one.
	ExitAdapter = 40
)

// MaxAdapters of a server: exit codes end at 125.
const MaxAdapters = 7

// firstAnswer is how long the first completion of a server may take.
const firstAnswer = 40 * time.Second

// maxAnswer is how much of an answer is read, in bytes.
const maxAnswer = 1 << 20

// NotReady says why a server does not serve.
type NotReady struct {
	// Code is the exit code for it.
	Code int
	// Why is a sentence.
	Why string
}

// Error implements error.
func (e NotReady) Error() string { return e.Why }

// Probe asks a server in the same pod.
type Probe struct {
	// Run is the folder that the containers of the pod share.
	Run string
	// Address of the server: host and port.
	Address string
	// Path that is asked before the server has to complete a prompt.
	Path string
	// Timeout of a request to Path.
	Timeout time.Duration
	// Key of the server's API; empty for none.
	Key string
	// PathAlone is for a server that has computed with its model before it answers Path: it completes no prompt.
	PathAlone bool
}

// Check returns the version of a server that answers, and has completed a prompt; else the error is a NotReady. One
// that has loaded a model may still be unable to compute with it. It is for once after each start: from then on the
// path alone is to be asked, which a server answers while all of its slots are busy.
func (p *Probe) Check(ctx context.Context) (version string, err error) {
	f := files{p.Run}
	var state State
	if err := f.read(f.state(), &state); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return "", NotReady{ExitSilent, "the server has not been started yet"}
		}
		return "", err
	}
	if why := notReady(state); why != nil {
		return "", *why
	}
	if err := p.ask(ctx, cmp.Or(p.Timeout, time.Second), http.MethodGet, p.Path, nil); err != nil {
		return "", NotReady{ExitSilent, err.Error()}
	}
	if p.PathAlone {
		return state.Version, nil
	}
	if err := p.Complete(ctx); err != nil {
		return "", NotReady{ExitSilent, err.Error()}
	}
	return state.Version, nil
}

// notReady says why a server was not started yet; nil for one that was.
func notReady(s State) *NotReady {
	tenths, file, code := s.Percent/10, "the model", 0
	if s.Adapter > 0 {
		file, code = fmt.Sprintf("adapter %d of %d", s.Adapter, s.Adapters), ExitAdapter+11*(s.Adapter-1)+tenths
	}
	switch s.Phase {
	case Downloading:
		return &NotReady{cmp.Or(code, ExitDownloading+tenths), fmt.Sprintf("%s is being downloaded: %d %%", file, s.Percent)}
	case Verifying:
		return &NotReady{cmp.Or(code, ExitVerifying+min(tenths, 9)),
			fmt.Sprintf("the digest of %s is being verified: %d %%", file, s.Percent)}
	case Failed:
		return &NotReady{ExitFailed, "the server cannot be started: " + s.Reason}
	}
	return nil
}

// Complete has the server complete a prompt by one token.
func (p *Probe) Complete(ctx context.Context) error {
	return p.ask(ctx, firstAnswer, http.MethodPost, "/completion", map[string]any{"prompt": "Hello", "n_predict": 1})
}

// ask makes a request, whose answer must be of a status below 400.
func (p *Probe) ask(ctx context.Context, timeout time.Duration, method, path string, content any) error {
	_, err := p.answer(ctx, timeout, method, path, content)
	return err
}

// answer makes a request and returns what is answered with a status below 400.
func (p *Probe) answer(ctx context.Context, timeout time.Duration, method, path string, content any) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var body io.Reader
	if content != nil {
		data, err := json.Marshal(content)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(data)
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://"+p.Address+path, body)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	if p.Key != "" {
		request.Header.Set("Authorization", "Bearer "+p.Key)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%s was not answered within %s", path, timeout)
	}
	if err != nil {
		return nil, fmt.Errorf("%s is not answered: %w", path, errors.Unwrap(err))
	}
	defer func() { _ = response.Body.Close() }()
	said, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	switch {
	case err != nil:
		return nil, fmt.Errorf("the answer to %s was cut off: %w", path, err)
	case response.StatusCode >= http.StatusBadRequest:
		return nil, fmt.Errorf("%s is answered with %q: %.200s", path, response.Status, said)
	}
	return said, nil
}
