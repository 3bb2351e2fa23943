// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"testing"

	"github.com/minio/minio-go/v7"
)

// TestStoragesThatAreFull each have a word of their own for it.
func TestStoragesThatAreFull(t *testing.T) {
	s := &S3{o: S3Options{Endpoint: "https://s3.example.com"}}
	for code, status := range map[string]int{"XMinioStorageFull": 507, "XMinioAdminBucketQuotaExceeded": 400,
		"QuotaExceeded": 403, "": 507} {
		err := s.answered(minio.ErrorResponse{Code: code, StatusCode: status})
		if !errors.As(err, new(Full)) || errors.As(err, new(Refused)) {
			t.Errorf("%d %s: %v", status, code, err)
		}
	}
	if err := s.answered(minio.ErrorResponse{Code: "AccessDenied", StatusCode: 403}); !errors.As(err, new(Refused)) {
		t.Errorf("what is refused: %v", err)
	}
	if err := s.answered(nil); err != nil {
		t.Errorf("what went well: %v", err)
	}
}
