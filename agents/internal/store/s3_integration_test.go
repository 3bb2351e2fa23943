// SPDX-License-Identifier: Apache-2.0

//go:build integration

package store_test

import (
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/zeroinfra/agents/internal/store"
	"github.com/zeroinfra/agents/internal/testpki"
)

// storage is a server that speaks S3, with certificates of a CA of its own.
type storage struct {
	*testing.T
	root, address string
	ca            *testpki.Authority
	process       *exec.Cmd
}

const account, secretKey = "archiver", "not-a-secret-at-all"

func newStorage(t *testing.T) *storage {
	t.Helper()
	s := &storage{T: t, root: t.TempDir(), ca: testpki.New(t)}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = listener.Addr().String()
	listener.Close()
	certificate, key := s.ca.Issue(t, testpki.Leaf{Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	for name, data := range map[string][]byte{"tls.crt": certificate, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(s.root, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, folder := range []string{"buckets", "buckets/logs"} {
		if err := os.Mkdir(filepath.Join(s.root, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s.start()
	return s
}

func (s *storage) start() {
	s.Helper()
	program, err := exec.LookPath("versitygw")
	if err != nil {
		s.Fatal("there is no versitygw: run make tool-versitygw, and have bin in PATH")
	}
	log, err := os.OpenFile(filepath.Join(s.root, "log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		s.Fatal(err)
	}
	defer log.Close()
	s.process = exec.Command(program, "--access", account, "--secret", secretKey, "--region", "eu-test-1", "--port", s.address, "--quiet",
		"--cert", filepath.Join(s.root, "tls.crt"), "--key", filepath.Join(s.root, "tls.key"), "posix", filepath.Join(s.root, "buckets"))
	s.process.Stdout, s.process.Stderr = log, log
	s.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.process.Start(); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(s.kill)
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		connection, err := net.Dial("tcp", s.address)
		if err == nil {
			connection.Close()
			return
		}
		if time.Now().After(end) {
			said, _ := os.ReadFile(filepath.Join(s.root, "log"))
			s.Fatalf("the storage does not answer: %s", said)
		}
	}
}

func (s *storage) kill() {
	_ = s.process.Process.Kill()
	_ = s.process.Wait()
}

func (s *storage) options() store.S3Options {
	return store.S3Options{Endpoint: "https://" + s.address, Region: "eu-test-1", Bucket: "logs", Prefix: "production/shop", AccessKey: account, SecretKey: secretKey, CA: s.ca.PEM()}
}

func (s *storage) store(o store.S3Options) *store.S3 {
	s.Helper()
	made, err := store.NewS3(o)
	if err != nil {
		s.Fatal(err)
	}
	return made
}

func TestS3(t *testing.T) {
	s := newStorage(t)
	contract(t, s.store(s.options()))
	// Somebody else's objects in the same bucket.
	other := s.options()
	other.Prefix = "production/shop-2"
	if got := list(t, s.store(other), "a", ""); len(got) != 0 {
		t.Errorf("another prefix has %v", got)
	}
	// What was kept has the prefix in front.
	client, err := minio.New(s.address, &minio.Options{Creds: credentials.NewStaticV4(account, secretKey, ""), Secure: true, Region: "eu-test-1",
		Transport: &http.Transport{TLSClientConfig: s.ca.ClientConfig(t, nil, testpki.Leaf{})}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.StatObject(t.Context(), "logs", "production/shop/a/1.x", minio.StatObjectOptions{}); err != nil {
		t.Errorf("the object is elsewhere: %v", err)
	}
}

// TestAStorageThatRefuses says why, in the same words each time.
func TestAStorageThatRefuses(t *testing.T) {
	s := newStorage(t)
	for what, c := range map[string]struct {
		change func(*store.S3Options)
		says   string
	}{
		"another key":      {func(o *store.S3Options) { o.SecretKey = "other" }, "refuses it: SignatureDoesNotMatch"},
		"no such account":  {func(o *store.S3Options) { o.AccessKey = "nobody" }, "refuses it: InvalidAccessKeyId"},
		"no such bucket":   {func(o *store.S3Options) { o.Bucket = "none" }, `there is no bucket "none"`},
		"no trust":         {func(o *store.S3Options) { o.CA = nil }, "certificate signed by unknown authority"},
		"not this address": {func(o *store.S3Options) { o.Endpoint = "https://127.0.0.1:1" }, "cannot be reached: dial tcp 127.0.0.1:1: connect: connection refused"},
	} {
		o := s.options()
		c.change(&o)
		made := s.store(o)
		first, second := put(t.Context(), made, "a", []byte("one")), put(t.Context(), made, "a", []byte("one"))
		if first == nil || !strings.Contains(first.Error(), c.says) || second == nil || first.Error() != second.Error() {
			t.Errorf("%s: %v, and then %v", what, first, second)
			continue
		}
		if refused := errors.As(first, new(store.Refused)); refused == strings.Contains(first.Error(), "cannot be reached") {
			t.Errorf("%s: that nothing mends it is said to be %v", what, refused)
		}
		if strings.Contains(first.Error(), secretKey) {
			t.Errorf("%s: the key is told", what)
		}
	}
}

// TestAStorageThatIsKilled in the middle has all or nothing of an object, and what is not there is not said to be absent meanwhile.
func TestAStorageThatIsKilled(t *testing.T) {
	s := newStorage(t)
	made := s.store(s.options())
	content := []byte(strings.Repeat("log", 5<<20))
	kept := map[string]bool{}
	for i := range 8 {
		name := "a/" + string(rune('a'+i))
		time.AfterFunc(time.Duration(5+10*i)*time.Millisecond, func() { _ = s.process.Process.Kill() })
		kept[name] = put(t.Context(), made, name, content) == nil
		_ = s.process.Wait()
		if _, err := made.Head(t.Context(), name, 10); err == nil || errors.Is(err, store.ErrAbsent) {
			t.Errorf("a storage that is away says %v", err)
		}
		s.start()
	}
	for name, acknowledged := range kept {
		_, err := made.Head(t.Context(), name, 10)
		if errors.Is(err, store.ErrAbsent) && !acknowledged {
			continue
		}
		if err != nil || string(read(t, made, name)) != string(content) {
			t.Errorf("%s, which was acknowledged: %v, is half there: %v", name, acknowledged, err)
		}
	}
}
