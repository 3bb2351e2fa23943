// SPDX-License-Identifier: Apache-2.0

// Command health asks the MinIO of its pod how it is, for the plugin's probe: the small tools of the image speak no TLS
// that MinIO takes. It writes lines NAME=VALUE, and ends with 1 where nobody answers.
package main

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"net/http"
	"os"
	"time"
)

// version is set at build time.
var version = "dev"

// patience is how long an answer may take. The probe has a little more.
const patience = 2500 * time.Millisecond

func main() {
	address := flag.String("address", "http://127.0.0.1:9000", "URL of the server")
	release := flag.String("release", "/etc/minio/version", "file with the line that says which MinIO it is")
	tell := flag.Bool("version", false, "say which suite it is of")
	flag.Parse()
	if *tell {
		fmt.Println(version)
		return
	}
	if err := report(*address, *release); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func report(address, release string) error {
	said, err := os.ReadFile(release)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/minio/health/live", nil)
	if err != nil {
		return err
	}
	// Whom it asks is certain within the pod, and the certificate is for the name of the Service.
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	answer.Body.Close()
	status := answer.Header.Get("X-Minio-Server-Status")
	if status == "" {
		// It says something there only while it is not what it should be.
		status = "online"
	}
	if answer.StatusCode == http.StatusServiceUnavailable {
		fmt.Fprintln(os.Stderr, "the server calls itself busy (503)")
	}
	fmt.Printf("code=%d\nstatus=%s\n%s", answer.StatusCode, status, said)
	return nil
}
