// SPDX-License-Identifier: Apache-2.0

// Command agentcalls measures how long an operator waits for an answer of a pod's process manager. It calls with the
// operators' own client, for the status, over connections that are open already, and prints a line for each call: how
// many were under way at a time, and the nanoseconds that it took.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/zeroinfra/platform-core/internal/agentclient"
	"github.com/zeroinfra/platform-core/internal/pki"
)

// options are the flags.
type options struct {
	// authority is a folder with the data of the Secret that holds the domain's authority, a file for each key.
	authority, domain string
	// pod is NAMESPACE/NAME, and address its IP.
	pod, address string
	calls        int
	// parallel are numbers, separated by commas.
	parallel string
}

func main() {
	var o options
	flag.StringVar(&o.authority, "authority", "",
		"folder with the data of the domain's authority, a file for each key of its Secret")
	flag.StringVar(&o.domain, "domain", "database", "domain of the authority")
	flag.StringVar(&o.pod, "pod", "", "NAMESPACE/NAME of the pod")
	flag.StringVar(&o.address, "address", "", "address of the pod")
	flag.IntVar(&o.calls, "calls", 2000, "number of calls for each of -parallel")
	flag.StringVar(&o.parallel, "parallel", "1,32", "how many calls are under way at a time; a measurement for each")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintf(os.Stderr, "agentcalls: %v\n", err)
		os.Exit(1)
	}
}

func run(o options) error {
	authority, err := readAuthority(o)
	if err != nil {
		return err
	}
	namespace, name, _ := strings.Cut(o.pod, "/")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(o.pod)},
		Status: corev1.PodStatus{PodIP: o.address}}
	connections := agentclient.New(authority)
	defer connections.Close()
	process, err := connections.Dial(context.Background(), pod)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(os.Stdout)
	for text := range strings.SplitSeq(o.parallel, ",") {
		parallel, err := strconv.Atoi(text)
		if err != nil || parallel < 1 {
			return fmt.Errorf("-parallel %q: %q is no number of calls", o.parallel, text)
		}
		// What belongs to the connection and to the first calls is not measured.
		if _, err := measure(process, 50*parallel, parallel); err != nil {
			return err
		}
		took, err := measure(process, o.calls, parallel)
		if err != nil {
			return err
		}
		for _, one := range took {
			fmt.Fprintln(out, parallel, one.Nanoseconds())
		}
	}
	return out.Flush()
}

func readAuthority(o options) (*pki.Authority, error) {
	files, err := os.ReadDir(o.authority)
	if err != nil {
		return nil, fmt.Errorf("cannot read the authority: %w", err)
	}
	data := map[string][]byte{}
	for _, file := range files {
		if data[file.Name()], err = os.ReadFile(filepath.Join(o.authority, file.Name())); err != nil {
			return nil, fmt.Errorf("cannot read the authority: %w", err)
		}
	}
	return pki.Parse(o.domain, data)
}

// measure makes calls, so many at a time, and returns how long each took.
func measure(process agentclient.Process, calls, parallel int) ([]time.Duration, error) {
	took := make([]time.Duration, calls)
	var next atomic.Int64
	var callers sync.WaitGroup
	failed := make(chan error, parallel)
	for range parallel {
		callers.Go(func() {
			for n := next.Add(1) - 1; n < int64(calls); n = next.Add(1) - 1 {
				begin := time.Now()
				if _, err := process.Status(context.Background()); err != nil {
					failed <- err
					return
				}
				took[n] = time.Since(begin)
			}
		})
	}
	callers.Wait()
	select {
	case err := <-failed:
		return nil, err
	default:
		return took, nil
	}
}
