// SPDX-License-Identifier: Apache-2.0

package modelfile

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
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

// idleTimeout is how long a connection is kept that nobody uses.
const idleTimeout = 30 * time.Second

// maxRedirections of one request.
const maxRedirections = 10

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
	// Open returns the content from an offset on. Errors have no credentials in their text. An answer that stays the same
	// however often it is asked for is a store.Refused.
	Open(ctx context.Context, offset int64) (Content, error)
}

// HTTP is a file at a URL.
type HTTP struct {
	// URL of the file, http or https. Redirections are followed.
	URL string
	// CA, as PEM, are authorities that count beside those of the system.
	CA []byte
	// Token that is shown as a bearer token, or Username and Password; nothing is shown when all are empty. They go to
	// the host of the URL alone, and by https alone.
	Token, Username, Password string
	// client is that of Connected; nil where each Open has its own.
	client *http.Client
}

// Connected returns a source whose copies share their connections, for many files of one server.
func (h HTTP) Connected() (HTTP, error) {
	var err error
	h.client, err = httpClient(h.CA)
	return h, err
}

// errUnprotected says that a secret would be readable on the way.
var errUnprotected error = store.Refused{
	Why: "a token or password is shown by https alone, and this URL is of another scheme"}

// authorize has a request show who asks.
func (h HTTP) authorize(request *http.Request) error {
	switch {
	case h.Token == "" && h.Username == "" && h.Password == "":
		return nil
	case request.URL.Scheme != "https":
		return errUnprotected
	case h.Token != "":
		request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(h.Token))
	default:
		request.SetBasicAuth(strings.TrimSpace(h.Username), strings.TrimSpace(h.Password))
	}
	return nil
}

// redirected follows a redirection. The client leaves credentials out of it where it leads to another host.
func redirected(request *http.Request, via []*http.Request) error {
	switch {
	case len(via) >= maxRedirections:
		return errors.New("it was redirected too often")
	case request.Header.Get("Authorization") != "" && request.URL.Scheme != "https":
		return errUnprotected
	}
	return nil
}

// Open implements Source.
func (h HTTP) Open(ctx context.Context, offset int64) (Content, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, h.URL, nil)
	if err != nil {
		return Content{}, store.Refused{Why: fmt.Sprintf("the URL of the file is none: %v", withoutURL(err))}
	}
	// What is compressed on the way has another size, and no ranges.
	request.Header.Set("Accept-Encoding", "identity")
	if offset > 0 {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
	}
	if err := h.authorize(request); err != nil {
		return Content{}, fmt.Errorf("cannot ask %s: %w", request.URL.Host, err)
	}
	client := h.client
	if client == nil {
		if client, err = httpClient(h.CA); err != nil {
			return Content{}, err
		}
	}
	response, err := client.Do(request)
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
	}
	_ = response.Body.Close()
	if offset > 0 && (response.StatusCode == http.StatusPartialContent ||
		response.StatusCode == http.StatusRequestedRangeNotSatisfiable) {
		// It is another part, or there is nothing behind the offset: the file is as long as what is here, or shorter.
		return h.Open(ctx, 0)
	}
	return Content{}, answered(response.StatusCode, fmt.Sprintf("%s answers %q", request.URL.Host, response.Status))
}

// answered is the error of an answer without content. Somebody has to change something where the status is one of
// 4xx, but for those that ask the client to come back.
func answered(status int, said string) error {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return errors.New(said)
	}
	if status/100 == http.StatusBadRequest/100 {
		return store.Refused{Why: said}
	}
	return errors.New(said)
}

// httpClient gives up a server that takes a request and says nothing, not one that takes long for a file.
// Authorities, as PEM, count beside those of the system.
func httpClient(authorities []byte) (*http.Client, error) {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: time.Minute,
		DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext, DisableCompression: true,
		IdleConnTimeout: idleTimeout,
	}
	if len(authorities) > 0 {
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if !pool.AppendCertsFromPEM(authorities) {
			return nil, store.Refused{Why: "the CA of the source is no certificate in PEM"}
		}
		transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
	}
	return &http.Client{Transport: transport, CheckRedirect: redirected}, nil
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
	// CA, as PEM, are authorities that count beside those of the system.
	CA []byte
	// client is that of Connected; nil where each Open has its own.
	client *minio.Client
}

// Connected returns a source whose copies share their connections, for many objects of one bucket.
func (s S3) Connected() (S3, error) {
	var err error
	s.client, _, err = store.NewClient(s.options())
	return s, err
}

// Open implements Source.
func (s S3) Open(ctx context.Context, offset int64) (Content, error) {
	client := s.client
	if client == nil {
		var err error
		if client, _, err = store.NewClient(s.options()); err != nil {
			return Content{}, err
		}
	}
	about, err := client.StatObject(ctx, s.Bucket, s.Key, minio.StatObjectOptions{})
	if err != nil {
		return Content{}, s.failed(err)
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
		return Content{}, s.failed(err)
	}
	return Content{ReadCloser: body, Offset: offset, Size: about.Size}, nil
}

func (s S3) options() store.S3Options {
	return store.S3Options{Endpoint: s.Endpoint, Region: cmp.Or(s.Region, store.DefaultRegion), Bucket: s.Bucket,
		AccessKey: s.AccessKey, SecretKey: s.SecretKey, MoreCA: s.CA}
}

// failed says what the storage answers.
func (s S3) failed(err error) error {
	said := s.options().Said(err)
	switch {
	case errors.Is(said, store.ErrAbsent):
		said = store.Refused{Why: "there is no such object"}
	case errors.Is(said, store.ErrExists):
		said = errors.New("it was replaced between two requests")
	}
	return fmt.Errorf("cannot read object %q of bucket %q: %w", s.Key, s.Bucket, said)
}
