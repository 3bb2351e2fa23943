// SPDX-License-Identifier: Apache-2.0

// Package minio is the driver for MinIO, of which it keeps buckets, policies and users, and for any other S3 that is
// not in the pod, of which it keeps buckets.
//
// What S3 has a word for it says in S3, all else (users, policies, quotas, targets of replication) in MinIO's own API
// for administrators. It logs in as root over loopback. An object is changed by several calls, since neither has
// transactions: what can be refused before the first of them is, and what the server refuses later is seen when the
// object is read back.
package minio

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"

	miniogo "github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/zeroinfra/agents/internal/driver"
)

// Kinds of objects.
const (
	KindBucket = "bucket"
	KindPolicy = "policy"
	// KindReplication is a rule by which a bucket goes to another one, and its target.
	KindReplication = "replication"
	KindUser        = "user"
)

const (
	// region that MinIO is in where nobody says another; with it no call asks for that of a bucket first.
	region = "us-east-1"
	// workers is how many objects are looked at at a time.
	workers = 8
)

// Options of a driver.
type Options struct {
	// Address of the process: host and port.
	Address string
	// CAFile is what the certificate of the process must lead to; empty where it does not speak TLS.
	CAFile string
	// Username and Password of root. The password is asked for at each call, since it can change.
	Username string
	Password func() (string, error)
	// TargetCA are the authorities, as PEM, that the servers trust at targets beside those of the system and their own; it
	// may be nil.
	TargetCA func() (string, error)
}

// Driver is a driver.Driver for one storage. It keeps no connection: a call makes its own, with the password of that
// moment.
type Driver struct {
	// called is the storage in sentences.
	called  string
	keepers map[string]keeper
	open    func() (*session, error)
}

// New returns a driver for a MinIO in the pod.
func New(options Options) *Driver {
	return &Driver{called: "MinIO", open: func() (*session, error) { return open(options) },
		keepers: map[string]keeper{KindBucket: buckets{beyondS3: []aspect{{parameterQuota, readQuota, writeQuota}}},
			KindPolicy:      policies{},
			KindReplication: replications{}, KindUser: users{}}}
}

// keeper observes and changes one kind of objects.
type keeper interface {
	// observe returns the object; nil where it is not there.
	observe(ctx context.Context, s *session, query driver.Query) (*driver.State, error)
	// check says what is wrong with a change before anything is asked of the server.
	check(s *session, change driver.Change) error
	// put makes an object be as asked. there is nil where it has to be made.
	put(ctx context.Context, s *session, change driver.Change, there *driver.State) error
	// remove removes an object that is there.
	remove(ctx context.Context, s *session, name string) error
}

// Kinds implements driver.Driver.
func (d *Driver) Kinds() []string { return slices.Sorted(maps.Keys(d.keepers)) }

// Observe implements driver.Driver.
func (d *Driver) Observe(ctx context.Context, kind string, queries []driver.Query) ([]driver.State, error) {
	k, ok := d.keepers[kind]
	if !ok {
		return nil, d.unknown(kind)
	}
	s, err := d.open()
	if err != nil {
		return nil, err
	}
	defer s.close()
	states, errs := make([]*driver.State, len(queries)), make([]error, len(queries))
	var group sync.WaitGroup
	slots := make(chan struct{}, workers)
	for i, query := range queries {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			states[i], errs[i] = k.observe(ctx, s, query)
		})
	}
	group.Wait()
	var there []driver.State
	for i, state := range states {
		if errs[i] != nil {
			return nil, fmt.Errorf("cannot read the %s %q: %w", kind, queries[i].Name, errs[i])
		}
		if state != nil {
			there = append(there, *state)
		}
	}
	return there, nil
}

// Change implements driver.Driver, one object after the other.
func (d *Driver) Change(ctx context.Context, kind string, changes []driver.Change) (driver.Problems, error) {
	k, ok := d.keepers[kind]
	if !ok {
		return nil, d.unknown(kind)
	}
	s, err := d.open()
	if err != nil {
		return nil, err
	}
	defer s.close()
	problems := driver.Problems{}
	for _, change := range changes {
		err := changeOne(ctx, s, k, change)
		said, refused := refusal(d.called, err)
		switch {
		case err == nil:
		case refused:
			problems[change.Name] = said
		default:
			return nil, fmt.Errorf("cannot change the %s %q: %w", kind, change.Name, err)
		}
	}
	return problems, nil
}

func changeOne(ctx context.Context, s *session, k keeper, change driver.Change) error {
	if err := k.check(s, change); err != nil {
		return err
	}
	there, err := k.observe(ctx, s, change.Query)
	switch {
	case err != nil:
		return err
	case change.Intent != driver.Delete:
		return k.put(ctx, s, change, there)
	case there == nil:
		return nil
	}
	return k.remove(ctx, s, change.Name)
}

func (d *Driver) unknown(kind string) error {
	return fmt.Errorf("the driver for %s knows no %q", d.called, kind)
}

// session is one call's way to the storage. Of one that is not in the pod it has s3 and region alone.
type session struct {
	options   Options
	region    string
	transport *http.Transport
	s3        *miniogo.Client
	admin     *admin
	// close ends the connections.
	close func()
}

func open(options Options) (*session, error) {
	password, err := options.Password()
	if err != nil {
		return nil, err
	}
	config, err := driver.TLS(options.CAFile)
	if err != nil {
		return nil, err
	}
	s := &session{options: options, region: region, transport: &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return driver.Dial(ctx, network, address)
		},
		TLSClientConfig: config, MaxIdleConnsPerHost: workers, DisableCompression: true,
	}}
	s.close = s.transport.CloseIdleConnections
	if s.s3, err = s.as(options.Username, password); err != nil {
		return nil, err
	}
	s.admin = &admin{client: &http.Client{Transport: s.transport}, base: s.s3.EndpointURL().String(),
		username: options.Username, password: password}
	return s, nil
}

func (s *session) secure() bool { return s.options.CAFile != "" }

// as is a client that logs in as somebody.
func (s *session) as(username, password string) (*miniogo.Client, error) {
	return miniogo.New(s.options.Address, &miniogo.Options{
		Creds: credentials.NewStaticV4(username, password, ""), Secure: s.secure(), Transport: s.transport,
		Region: region, BucketLookup: miniogo.BucketLookupPath, MaxRetries: 1,
	})
}

// problem is a sentence that says why an object cannot be as asked.
type problem string

// Error implements error.
func (p problem) Error() string { return string(p) }

func problemf(format string, args ...any) error { return problem(fmt.Sprintf(format, args...)) }

// notYet are codes of a server that cannot do what is asked now, and may later: no words of refusal.
var notYet = []string{
	"XMinioServerNotInitialized", "XMinioIAMNotInitialized", "XMinioBucketMetadataNotInitialized",
	"SlowDown", "SlowDownRead", "SlowDownWrite", "ServiceUnavailable", "InternalError", "RequestTimeout",
}

// refusal is what is in the way of a single object, as far as that is what an error of the storage, as it is called,
// says.
func refusal(called string, err error) (string, bool) {
	var own problem
	if errors.As(err, &own) {
		return string(own), true
	}
	code, said := answer(err)
	if code == "" || slices.Contains(notYet, code) {
		return "", false
	}
	return called + " refuses it: " + strings.TrimSuffix(said, "."), true
}

// answer is the code and the sentence of the server; empty where an error is not its own.
func answer(err error) (code, said string) {
	var s3 miniogo.ErrorResponse
	var admin adminError
	switch {
	case errors.As(err, &s3):
		return s3.Code, s3.Message
	case errors.As(err, &admin):
		return admin.Code, admin.Message
	}
	return "", ""
}

// is says whether the server answers with one of the codes.
func is(err error, codes ...string) bool {
	code, _ := answer(err)
	return code != "" && slices.Contains(codes, code)
}

// known refuses parameters that an object has no use for.
func known(parameters map[string]string, names ...string) error {
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		if !slices.Contains(names, name) {
			return problemf("parameter %q is not known: known are %s", name, strings.Join(names, ", "))
		}
	}
	return nil
}

// oneOf refuses a value that is none of those that there are.
func oneOf(parameter, value string, values ...string) error {
	if slices.Contains(values, value) {
		return nil
	}
	return problemf("parameter %q is %q: it must be one of %s", parameter, value, strings.Join(values, ", "))
}
