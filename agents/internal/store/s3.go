// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// Addressing says where the name of a bucket is in an address.
type Addressing string

// Values of Addressing.
const (
	// AddressingAuto: in the host's name where the storage is known to want that, else in the path.
	AddressingAuto Addressing = "auto"
	// AddressingPath: https://endpoint/bucket/object.
	AddressingPath Addressing = "path"
	// AddressingVirtual: https://bucket.endpoint/object.
	AddressingVirtual Addressing = "virtual"
)

// DefaultRegion is what storages take that know no regions.
const DefaultRegion = "us-east-1"

// S3Options say where a bucket is, and who asks.
type S3Options struct {
	// Endpoint is a URL of a scheme and a host, maybe with a port.
	Endpoint string
	// Region of the bucket. Default DefaultRegion.
	Region string
	// Bucket, which is there, and the Prefix of all names in it.
	Bucket, Prefix string
	// Addressing by default AddressingAuto.
	Addressing           Addressing
	AccessKey, SecretKey string
	// CA, as PEM, that the certificate of the storage leads to; without it those of the system.
	CA []byte
	// MoreCA, as PEM, are authorities that count beside those of the system.
	MoreCA []byte
	// Bound is put around each connection; none when nil.
	Bound func(net.Conn) net.Conn
}

// S3 is a Store in a bucket.
type S3 struct {
	client *minio.Client
	o      S3Options
}

// NewS3 returns the store in a bucket. Nothing is asked yet.
func NewS3(o S3Options) (*S3, error) {
	client, _, err := NewClient(o)
	if err != nil {
		return nil, err
	}
	return &S3{client: client, o: o}, nil
}

// NewClient returns what speaks with a storage, whose connections the function ends. Nothing is asked yet. The error is
// a Refused.
func NewClient(o S3Options) (client *minio.Client, end func(), err error) {
	at, err := url.Parse(o.Endpoint)
	if err != nil || at.Host == "" || at.Scheme != "https" && at.Scheme != "http" || strings.Trim(at.Path, "/") != "" {
		return nil, nil, Refused{fmt.Sprintf("the endpoint %q is no URL such as https://s3.example.com:9000", o.Endpoint)}
	}
	transport, err := o.transport()
	if err != nil {
		return nil, nil, err
	}
	lookup, known := map[Addressing]minio.BucketLookupType{"": minio.BucketLookupAuto,
		AddressingAuto: minio.BucketLookupAuto, AddressingPath: minio.BucketLookupPath,
		AddressingVirtual: minio.BucketLookupDNS}[o.Addressing]
	if !known {
		return nil, nil, Refused{fmt.Sprintf("the addressing style %q is none of auto, path and virtual", o.Addressing)}
	}
	client, err = minio.New(at.Host, &minio.Options{
		Creds: credentials.NewStaticV4(o.AccessKey, o.SecretKey, ""), Secure: at.Scheme == "https",
		Region:       cmp.Or(o.Region, DefaultRegion),
		BucketLookup: lookup, Transport: transport,
		// Whoever asks repeats, and knows for how long.
		MaxRetries: 1,
	})
	if err != nil {
		return nil, nil, Refused{err.Error()}
	}
	return client, transport.CloseIdleConnections, nil
}

// NewHTTP returns what asks a storage for something that S3 has no word for, unsigned, whose connections the function
// ends. The error is a Refused.
func NewHTTP(o S3Options) (client *http.Client, end func(), err error) {
	transport, err := o.transport()
	if err != nil {
		return nil, nil, err
	}
	return &http.Client{Transport: transport}, transport.CloseIdleConnections, nil
}

func (o S3Options) transport() (*http.Transport, error) {
	transport := &http.Transport{
		Proxy:       http.ProxyFromEnvironment,
		DialContext: o.dial,
		// A storage that takes a request and says nothing is away, too.
		TLSHandshakeTimeout: 5 * time.Second, ResponseHeaderTimeout: 30 * time.Second, IdleConnTimeout: 30 * time.Second,
		MaxIdleConnsPerHost: 16, DisableCompression: true, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
	}
	if len(o.CA) > 0 {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(o.CA) {
			return nil, Refused{"the CA of the storage is no certificate in PEM"}
		}
		transport.TLSClientConfig.RootCAs = pool
	}
	if len(o.MoreCA) > 0 {
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if !pool.AppendCertsFromPEM(o.MoreCA) {
			return nil, Refused{"the CA beside those of the system is no certificate in PEM"}
		}
		transport.TLSClientConfig.RootCAs = pool
	}
	return transport, nil
}

// Said is what a storage answered, or that it did not, in words that are the same each time. A Refused is what is not
// to be asked again as it is.
func (o S3Options) Said(err error) error { return (&S3{o: o}).told(err) }

func (o S3Options) dial(ctx context.Context, network, address string) (net.Conn, error) {
	connection, err := (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext(ctx, network,
		address)
	if err != nil || o.Bound == nil {
		return connection, err
	}
	return o.Bound(connection), nil
}

// String implements Store.
func (s *S3) String() string {
	return strings.TrimSuffix(s.o.Endpoint, "/") + "/" + beneath(s.o.Bucket, s.o.Prefix)
}

// Put implements Store. Where the storage does not know the condition, one who does the same in the same moment is not
// noticed.
func (s *S3) Put(ctx context.Context, name string, content io.ReadSeeker, size int64) error {
	if err := checkName(name); err != nil {
		return err
	}
	if _, err := s.client.StatObject(ctx, s.o.Bucket, beneath(s.o.Prefix, name), minio.StatObjectOptions{}); err == nil {
		return ErrExists
	} else if err := s.told(err); !errors.Is(err, ErrAbsent) {
		return err
	}
	// The storage compares the sum before it keeps what came.
	options := minio.PutObjectOptions{ContentType: "application/octet-stream", SendContentMd5: true,
		DisableMultipart: true}
	options.SetMatchETagExcept("*")
	err := s.send(ctx, name, content, size, options)
	if minio.ToErrorResponse(err).StatusCode == http.StatusNotImplemented {
		options = minio.PutObjectOptions{ContentType: options.ContentType, SendContentMd5: true, DisableMultipart: true}
		err = s.send(ctx, name, content, size, options)
	}
	return s.answered(err)
}

func (s *S3) send(ctx context.Context, name string, content io.ReadSeeker, size int64,
	options minio.PutObjectOptions) error {
	if _, err := content.Seek(0, io.SeekStart); err != nil {
		return err
	}
	_, err := s.client.PutObject(ctx, s.o.Bucket, beneath(s.o.Prefix, name), content, size, options)
	return err
}

// Open implements Store.
func (s *S3) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	return s.open(ctx, name, minio.GetObjectOptions{})
}

func (s *S3) open(ctx context.Context, name string, options minio.GetObjectOptions) (io.ReadCloser, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	core := minio.Core{Client: s.client}
	body, _, _, err := core.GetObject(ctx, s.o.Bucket, beneath(s.o.Prefix, name), options)
	return body, s.told(err)
}

// Head implements Store.
func (s *S3) Head(ctx context.Context, name string, count int) ([]byte, error) {
	options := minio.GetObjectOptions{}
	if err := options.SetRange(0, int64(count)-1); err != nil {
		return nil, err
	}
	body, err := s.open(ctx, name, options)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	data, err := io.ReadAll(io.LimitReader(body, int64(count)))
	return data, s.told(err)
}

// List implements Store.
func (s *S3) List(ctx context.Context, folder, after string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if err := checkName(folder); err != nil {
			yield("", err)
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		options := minio.ListObjectsOptions{Prefix: beneath(s.o.Prefix, folder) + "/", Recursive: true}
		if after != "" {
			options.StartAfter = beneath(s.o.Prefix, after)
		}
		for object := range s.client.ListObjects(ctx, s.o.Bucket, options) {
			if object.Err != nil {
				yield("", s.told(object.Err))
				return
			}
			// What others keep there is none of ours.
			if name := strings.TrimPrefix(object.Key, beneath(s.o.Prefix, "")); nameForm.MatchString(name) && name > after &&
				!yield(name, nil) {
				return
			}
		}
	}
}

// passing are answers to what may be asked again as it is.
var passing = []string{"RequestTimeout", "RequestTimeTooSkewed", "OperationAborted", "ConditionalRequestConflict"}

// told is an error of the storage in words that are the same each time, without the number of a request.
func (s *S3) told(err error) error {
	if err == nil {
		return nil
	}
	answer := minio.ToErrorResponse(err)
	switch answer.Code {
	case "NoSuchKey":
		return ErrAbsent
	case "PreconditionFailed":
		return ErrExists
	case "NoSuchBucket":
		return Refused{fmt.Sprintf("there is no bucket %q at %s", s.o.Bucket, s.o.Endpoint)}
	case "InvalidAccessKeyId", "SignatureDoesNotMatch", "AccessDenied", "AllAccessDisabled", "AccountProblem",
		"InvalidBucketName", "AuthorizationHeaderMalformed", "PermanentRedirect":
		return Refused{fmt.Sprintf("%s refuses it: %s: %s", s.o.Endpoint, answer.Code,
			strings.TrimSuffix(answer.Message, "."))}
	}
	if answer.StatusCode == http.StatusNotFound && answer.Code == "" {
		return ErrAbsent
	}
	says := fmt.Errorf("%s says %s", s.o.Endpoint, cmp.Or(answer.Code, http.StatusText(answer.StatusCode)))
	switch {
	case answer.StatusCode/100 == 4 && answer.StatusCode != http.StatusTooManyRequests &&
		!slices.Contains(passing, answer.Code):
		// Storages have words of their own for accounts and rights that there are not.
		return Refused{says.Error()}
	case answer.StatusCode != 0:
		return says
	}
	// The address with all that was asked is in the error of the client; what happened is inside.
	if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
		return fmt.Errorf("%s cannot be reached: %w", s.o.Endpoint, wrapped.Err)
	}
	return fmt.Errorf("%s: %w", s.o.Endpoint, err)
}
