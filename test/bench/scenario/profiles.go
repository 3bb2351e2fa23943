// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"
)

// profilesAddress is where the operator serves its profiles, when they are asked for.
const profilesAddress = "127.0.0.1:18082"

// Profiles, as paths below /debug/pprof with the name of the file.
var (
	cpuProfile  = [2]string{"profile?seconds=20", "cpu"}
	heapProfile = [2]string{"heap?gc=1", "heap"}
)

// profile begins to take a profile of the operator and one of the API server, when any are asked for; the function
// returned waits for them.
func (b *bench) profile(ctx context.Context, kind [2]string) (wait func() error) {
	if b.Profiles == "" {
		return func() error { return nil }
	}
	const sources = 2
	done := make(chan error, sources)
	take := func(program string, c *http.Client, host string) {
		path := filepath.Join(b.Profiles, fmt.Sprintf("%s-%s-%d.pprof", program, kind[1], b.Applications))
		err := download(ctx, c, host+"/debug/pprof/"+kind[0], path)
		if err != nil {
			err = fmt.Errorf("cannot take a profile of the %s: %w", program, err)
		}
		done <- err
	}
	go take("operator", http.DefaultClient, "http://"+profilesAddress)
	go func() {
		c, err := rest.HTTPClientFor(b.plane.Kit.Config)
		address, _, addressErr := rest.DefaultServerUrlFor(b.plane.Kit.Config)
		if err = errors.Join(err, addressErr); err != nil {
			done <- err
			return
		}
		take("apiserver", c, "https://"+address.Host)
	}()
	return func() error { return errors.Join(<-done, <-done) }
}

func download(ctx context.Context, c *http.Client, address, path string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	response, err := c.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the answer is %s", response.Status)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if _, err := io.Copy(file, response.Body); err != nil {
		_ = file.Close() // What matters is why it was not written.
		return err
	}
	return file.Close()
}
