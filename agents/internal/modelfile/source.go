// SPDX-License-Identifier: Apache-2.0

package modelfile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/zeroinfra/agents/internal/store"
)

// unknownSize is the size of a file of which the server says none.
const unknownSize = -1

// Content is what a source has from an offset on.
type Content struct {
	io.ReadCloser
	// Offset is that of the first byte: the one that was asked for, or 0 where the source cannot begin there.
	Offset int64
	// Size of the whole file, or unknownSize.
	Size int64
}

// Source is where a file comes from.
type Source interface {
	// Open returns the content from an offset on. Errors have no credentials in their text.
	Open(ctx context.Context, offset int64) (Content, error)
}

// HTTP is a file at a URL.
type HTTP struct {
	// URL of the file, http or https. Redirections are followed.
	URL string
}

// Open implements Source.
func (h HTTP) Open(ctx context.Context, offset int64) (Content, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, h.URL, nil)
	if err != nil {
		return Content{}, fmt.Errorf("the URL of the model is none: %w", withoutURL(err))
	}
	// What is compressed on the way has another size, and no ranges.
	request.Header.Set("Accept-Encoding", "identity")
	if offset > 0 {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
	}
	response, err := httpClient().Do(request)
	if err != nil {
		return Content{}, fmt.Errorf("%s does not answer: %w", request.URL.Host, withoutURL(err))
	}
	content := Content{ReadCloser: response.Body, Size: unknownSize}
	switch response.StatusCode {
	case http.StatusOK:
		content.Size = response.ContentLength
		return content, nil
	case http.StatusPartialContent:
		first, size, err := rangeOf(response.Header.Get("Content-Range"))
		if err == nil && first == offset {
			content.Offset, content.Size = first, size
			return content, nil
		}
	case http.StatusRequestedRangeNotSatisfiable:
		// There is nothing behind the offset: the file is as long as what is here, or shorter.
		_ = response.Body.Close()
		if offset > 0 {
			return h.Open(ctx, 0)
		}
	}
	_ = response.Body.Close()
	return Content{}, fmt.Errorf("%s answers %q", request.URL.Host, response.Status)
}

// httpClient gives up a server that takes a request and says nothing, not one that takes long for a file.
func httpClient() *http.Client {
	return &http.Client{Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: time.Minute,
		DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext, DisableCompression: true,
	}}
}

// withoutURL leaves the URL out of an error: it may hold a token.
func withoutURL(err error) error {
	var about *url.Error
	if errors.As(err, &about) {
		return about.Err
	}
	return err
}

// rangeOf reads a header such as "bytes 5-9/10".
func rangeOf(header string) (first, size int64, err error) {
	said, total, _ := strings.Cut(strings.TrimPrefix(header, "bytes "), "/")
	from, _, _ := strings.Cut(said, "-")
	if first, err = strconv.ParseInt(from, 10, 64); err != nil {
		return 0, 0, err
	}
	if size, err = strconv.ParseInt(total, 10, 64); err != nil {
		size = unknownSize
	}
	return first, size, nil
}

// S3 is an object in a bucket.
type S3 struct {
	// Endpoint is a URL such as https://s3.example.com.
	Endpoint string
	// Region of the bucket; store.DefaultRegion when empty.
	Region      string
	Bucket, Key string
	// AccessKey and SecretKey of the account; requests are not signed when both are empty.
	AccessKey, SecretKey string
}

// Open implements Source.
func (s S3) Open(ctx context.Context, offset int64) (Content, error) {
	client, _, err := store.NewClient(store.S3Options{Endpoint: s.Endpoint, Region: cmp.Or(s.Region, store.DefaultRegion),
		AccessKey: s.AccessKey, SecretKey: s.SecretKey})
	if err != nil {
		return Content{}, err
	}
	about, err := client.StatObject(ctx, s.Bucket, s.Key, minio.StatObjectOptions{})
	if err != nil {
		return Content{}, fmt.Errorf("cannot read object %q of bucket %q: %w", s.Key, s.Bucket, withoutURL(err))
	}
	if offset >= about.Size {
		offset = 0
	}
	var options minio.GetObjectOptions
	if offset > 0 {
		if err := options.SetRange(offset, 0); err != nil {
			return Content{}, err
		}
	}
	// The two requests are about the same content.
	if err := options.SetMatchETag(about.ETag); err != nil {
		return Content{}, err
	}
	body, _, _, err := minio.Core{Client: client}.GetObject(ctx, s.Bucket, s.Key, options)
	if err != nil {
		return Content{}, fmt.Errorf("cannot read object %q of bucket %q: %w", s.Key, s.Bucket, withoutURL(err))
	}
	return Content{ReadCloser: body, Offset: offset, Size: about.Size}, nil
}
