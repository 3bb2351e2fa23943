// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"net"
	"strings"
	"testing"
)

func TestCheckSaysWhatIsMissing(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	port := listener.Addr().(*net.TCPAddr).Port
	folder := t.TempDir()
	said := strings.Join(Check(Needs{Disk: 1 << 62, Folders: []string{folder}, Port: port}), "\n")
	for _, want := range []string{folder + " has ", fmt.Sprintf("port %d of 127.0.0.1 is in use", port)} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is missing in %q", want, said)
		}
	}
	if said := Check(Needs{Folders: []string{folder}}); len(said) > 0 {
		t.Errorf("nothing is missing, and it says %q", said)
	}
}
