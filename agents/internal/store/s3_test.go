// SPDX-License-Identifier: Apache-2.0

//go:build processes

package store_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/zeroinfra/agents/internal/store"
	"github.com/zeroinfra/agents/internal/testpki"
	"github.com/zeroinfra/agents/internal/teststorage"
)

func optionsOf(s *teststorage.Server) store.S3Options {
	return store.S3Options{Endpoint: s.Endpoint(), Region: teststorage.Region, Bucket: teststorage.Bucket,
		Prefix:    "production/shop",
		AccessKey: teststorage.Account, SecretKey: teststorage.SecretKey, CA: s.CA.PEM()}
}

func storeOf(t *testing.T, o store.S3Options) *store.S3 {
	t.Helper()
	made, err := store.NewS3(o)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestS3(t *testing.T) {
	s := teststorage.New(t)
	made := storeOf(t, optionsOf(s))
	contract(t, made)
	repository(t, made)
	// Somebody else's objects in the same bucket.
	other := optionsOf(s)
	other.Prefix = "production/shop-2"
	if got := list(t, storeOf(t, other), "a", ""); len(got) != 0 {
		t.Errorf("another prefix has %v", got)
	}
	// What was kept has the prefix in front.
	client, err := minio.New(s.Address,
		&minio.Options{Creds: credentials.NewStaticV4(teststorage.Account, teststorage.SecretKey, ""), Secure: true,
			Region:    teststorage.Region,
			Transport: &http.Transport{TLSClientConfig: s.CA.ClientConfig(t, nil, testpki.Leaf{})}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.StatObject(t.Context(), teststorage.Bucket, "production/shop/a/1.x",
		minio.StatObjectOptions{}); err != nil {
		t.Errorf("the object is elsewhere: %v", err)
	}
	for upload := range client.ListIncompleteUploads(t.Context(), teststorage.Bucket, "", true) {
		t.Errorf("an upload is left: %s, %v", upload.Key, upload.Err)
	}
}

// TestAStorageThatRefuses says why, in the same words each time.
func TestAStorageThatRefuses(t *testing.T) {
	s := teststorage.New(t)
	for what, c := range map[string]struct {
		change func(*store.S3Options)
		says   string
	}{
		"another key":     {func(o *store.S3Options) { o.SecretKey = "other" }, "refuses it: AccessDenied"},
		"no such account": {func(o *store.S3Options) { o.AccessKey = "nobody" }, "says XAdminUserNotFound"},
		"no such bucket":  {func(o *store.S3Options) { o.Bucket = "none" }, `there is no bucket "none"`},
		"no trust":        {func(o *store.S3Options) { o.CA = nil }, "certificate signed by unknown authority"},
		"not this address": {func(o *store.S3Options) { o.Endpoint = "https://127.0.0.1:1" },
			"cannot be reached: dial tcp 127.0.0.1:1: connect: connection refused"},
	} {
		o := optionsOf(s)
		c.change(&o)
		made := storeOf(t, o)
		first, second := put(t.Context(), made, "a", []byte("one")), put(t.Context(), made, "a", []byte("one"))
		if first == nil || !strings.Contains(first.Error(), c.says) || second == nil || first.Error() != second.Error() {
			t.Errorf("%s: %v, and then %v", what, first, second)
			continue
		}
		if refused := errors.As(first, new(store.Refused)); refused == strings.Contains(first.Error(), "cannot be reached") {
			t.Errorf("%s: that nothing mends it is said to be %v", what, refused)
		}
		if strings.Contains(first.Error(), teststorage.SecretKey) {
			t.Errorf("%s: the key is told", what)
		}
	}
}

// TestAStorageThatIsKilled in the middle has all or nothing of an object, and what is not there is not said to be
// absent meanwhile.
func TestAStorageThatIsKilled(t *testing.T) {
	s := teststorage.New(t)
	made := storeOf(t, optionsOf(s))
	content := []byte(strings.Repeat("log", 5<<20))
	kept := map[string]bool{}
	for i := range 8 {
		name := "a/" + string(rune('a'+i))
		killed := make(chan struct{})
		time.AfterFunc(time.Duration(5+10*i)*time.Millisecond, func() { defer close(killed); s.Kill() })
		kept[name] = put(t.Context(), made, name, content) == nil
		<-killed
		if _, err := made.Head(t.Context(), name, 10); err == nil || errors.Is(err, store.ErrAbsent) {
			t.Errorf("a storage that is away says %v", err)
		}
		s.Start()
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
