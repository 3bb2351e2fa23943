// SPDX-License-Identifier: Apache-2.0

//go:build processes

package main

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	protocol "github.com/zeroinfra/platform-core/agentproto/mover"
)

// oddMetadata has names and values that clients take for something else, as headers of a request.
var oddMetadata = map[string]string{
	"X-Amz-Meta-Content-Type": "mine", "X-Amz-Meta-Expires": "never", "X-Amz-Meta-Cache-Control": "none",
	"X-Amz-Meta-X-Minio-Kind": "other",
	"X-Amz-Meta-X-Amz-Acl":    "public-read", "X-Amz-Meta-X-Amz-Meta-Twice": "two",
	"X-Amz-Meta-X-Amz-Storage-Class":          "cold",
	"X-Amz-Meta-X-Amz-Server-Side-Encryption": "AES256", "X-Amz-Meta-X-Amz-Checksum-Sha256": "0",
	"X-Amz-Meta-X-Amz-Object-Lock-Mode": "COMPLIANCE",
	"X-Amz-Meta-Owner":                  "shop", "X-Amz-Meta-Empty": "", "X-Amz-Meta-Lines": "=?UTF-8?Q?one=0Atwo?=",
	"X-Amz-Meta-Words": "=?UTF-8?Q?gr=C3=BC=C3=9Fe?=",
}

// TestBucketsWithOddMetadata: whatever a storage takes as metadata comes back by its name, and is no header of its own.
func TestBucketsWithOddMetadata(t *testing.T) {
	m := newObjects(t)
	m.from.bucket("odd", "")
	expires := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	// Each kind is put in a way of its own: at once, in a stream, and in parts.
	for key, size := range map[string]int{"small": 10, "medium": 9 << 20, "large": 20 << 20} {
		m.from.put("odd", key, stuff(1, size), minio.PutObjectOptions{UserMetadata: oddMetadata, Expires: expires})
	}
	if got := m.taken("odd", protocol.ObjectsIncremental); got != fmt.Sprintf("3 of 3, %d bytes", 10+29<<20) {
		t.Errorf("it read %s", got)
	}
	to := m.comesBack("odd", m.from.all())
	for _, key := range []string{"small", "medium", "large"} {
		was, err := m.from.client.StatObject(t.Context(), "odd", key, minio.StatObjectOptions{})
		if err != nil {
			t.Fatal(err)
		}
		is, err := to.client.StatObject(t.Context(), "odd", key, minio.StatObjectOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(was.UserMetadata) != len(oddMetadata) || !maps.Equal(is.UserMetadata, was.UserMetadata) {
			t.Errorf("%s has %v, and had %v", key, slices.Sorted(maps.Keys(is.UserMetadata)),
				slices.Sorted(maps.Keys(was.UserMetadata)))
		}
		if !is.Expires.Equal(expires) {
			t.Errorf("%s expires %v", key, is.Expires)
		}
	}
}
