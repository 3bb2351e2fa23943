// SPDX-License-Identifier: Apache-2.0

package minio

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
)

// targets of a bucket, without their secret keys.
func (a *admin) targets(ctx context.Context, bucket string) ([]remote, error) {
	var all []remote
	err := a.call(ctx, http.MethodGet, "list-remote-targets", url.Values{"bucket": {bucket}, "type": {remoteType}}, nil,
		&all)
	if is(err, "XMinioAdminRemoteTargetNotFoundError") {
		return nil, nil
	}
	return all, err
}

// addTarget returns the ARN of a target that a bucket has from then on.
func (a *admin) addTarget(ctx context.Context, bucket string, target remote) (arn string, err error) {
	err = a.putTarget(ctx, url.Values{"bucket": {bucket}}, target, &arn)
	return arn, err
}

// changeTarget gives the target with an ARN another address, other keys and other limits.
func (a *admin) changeTarget(ctx context.Context, bucket string, target remote) error {
	const changes = "true"
	return a.putTarget(ctx, url.Values{"bucket": {bucket}, "update": {changes}, "creds": {changes}, "sync": {changes},
		"bandwidth": {changes}, "proxy": {changes}}, target, nil)
}

func (a *admin) putTarget(ctx context.Context, query url.Values, target remote, answer any) error {
	body, err := json.Marshal(target)
	if err != nil {
		return err
	}
	sealed, err := seal(a.password, body)
	if err != nil {
		return err
	}
	return a.call(ctx, http.MethodPut, "set-remote-target", query, sealed, answer)
}

func (a *admin) removeTarget(ctx context.Context, bucket, arn string) error {
	err := a.call(ctx, http.MethodDelete, "remove-remote-target", url.Values{"bucket": {bucket}, "arn": {arn}}, nil, nil)
	if is(err, "XMinioAdminRemoteTargetNotFoundError") {
		return nil
	}
	return err
}

// targetKey is the secret key that a bucket has for the target with an ARN; empty for none. MinIO tells it only where
// it exports all that the bucket is.
func (a *admin) targetKey(ctx context.Context, bucket, arn string) (string, error) {
	data, err := a.ask(ctx, http.MethodGet, "export-bucket-metadata", url.Values{"bucket": {bucket}}, nil)
	if err != nil {
		return "", err
	}
	archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return "", fmt.Errorf("cannot read what MinIO exports of bucket %q: %w", bucket, err)
	}
	file, err := archive.Open(bucket + "/bucket-targets.json")
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer file.Close()
	// In spite of its name it is XML.
	var exported struct {
		Targets []struct {
			Arn         string
			Credentials struct {
				SecretKey string `xml:"SecretAccessKey"`
			}
		}
	}
	if err := xml.NewDecoder(io.LimitReader(file, maxAnswer)).Decode(&exported); err != nil {
		return "", fmt.Errorf("cannot read the targets that MinIO exports of bucket %q: %w", bucket, err)
	}
	for _, target := range exported.Targets {
		if target.Arn == arn {
			return target.Credentials.SecretKey, nil
		}
	}
	return "", nil
}
