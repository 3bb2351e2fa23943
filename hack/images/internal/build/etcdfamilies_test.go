// SPDX-License-Identifier: Apache-2.0

//go:build processes

package build

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// TestEtcdListensOnBothFamilies has the servers listen as the plugin has them, on 0.0.0.0, and asks them by IPv4 and IPv6.
// Go opens one socket of both families for that address, and one of IPv6 where there is no IPv4.
func TestEtcdListensOnBothFamilies(t *testing.T) {
	for _, version := range []string{"3.4", "3.5"} {
		t.Run(version, func(t *testing.T) {
			root := unpacked(t, "zeroinfra/etcd:"+version)
			if os.Geteuid() != 0 {
				return
			}
			client, peer := freePort(t), freePort(t)
			cmd := exec.Command("/usr/bin/etcd", "--data-dir=/tmp/families", "--listen-peer-urls=http://127.0.0.1:"+peer,
				"--initial-advertise-peer-urls=http://127.0.0.1:"+peer, "--initial-cluster=default=http://127.0.0.1:"+peer,
				"--listen-client-urls=http://0.0.0.0:"+client, "--advertise-client-urls=http://127.0.0.1:"+client)
			cmd.Dir = "/"
			cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Setpgid: true}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer cmd.Wait()
			defer cmd.Process.Kill()
			for _, host := range []string{"127.0.0.1", "::1"} {
				if err := answersAt(t.Context(), "http://"+net.JoinHostPort(host, client)+"/health"); err != nil {
					t.Errorf("by %s: %v", host, err)
				}
			}
		})
	}
}

// answersAt asks a server until it answers.
func answersAt(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, etcdIn)
	defer cancel()
	last := fmt.Errorf("%s was not asked", url)
	for ctx.Err() == nil {
		answer, err := http.Get(url)
		if err == nil {
			_, _ = io.Copy(io.Discard, answer.Body)
			_ = answer.Body.Close()
			return nil
		}
		last = err
		time.Sleep(200 * time.Millisecond)
	}
	return last
}
