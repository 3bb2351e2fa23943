// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
	"github.com/zeroinfra/platform-core/internal/secretvalue"
)

const (
	// mostCalls is how many calls are under way at a time.
	mostCalls = 64
	// longestResponse is how much of an answer is read, in bytes.
	longestResponse = 1 << 20
)

// calls are those that steps make, by Operation and key. No worker waits for one: its end wakes the Operation. They are
// remembered as long as their step, or item, is under way on record, so that an answer is not lost when the record of
// it could not be written.
type calls struct {
	dial  func(ctx context.Context, network, address string) (net.Conn, error)
	slots chan struct{}
	// ended has an Operation for each call that ended.
	ended chan event.GenericEvent

	mu   sync.Mutex
	made map[types.NamespacedName]map[string]*call
}

// call is one of them; answer is nil while it is under way.
type call struct {
	cancel context.CancelFunc
	answer *opsflow.Answer
}

func newCalls(dial func(ctx context.Context, network, address string) (net.Conn, error)) *calls {
	if dial == nil {
		dial = (&net.Dialer{Control: refuseNode}).DialContext
	}
	return &calls{dial: dial, slots: make(chan struct{}, mostCalls), ended: make(chan event.GenericEvent, mostCalls),
		made: map[types.NamespacedName]map[string]*call{}}
}

// errNodeAddress refuses addresses that mean something else to the operator than to the author of a call.
var errNodeAddress = errors.New("the address is the operator's own, one of its node, or no address of a server")

// cloudMetadata is where a node of a cloud tells its credentials over IPv6. Over IPv4 the address is link-local.
var cloudMetadata = net.ParseIP("fd00:ec2::254")

// refuseNode refuses connections to the operator itself and to its node, after names were resolved.
func refuseNode(_, address string, _ syscall.RawConn) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	ip := net.ParseIP(host)
	if ip == nil || ip.IsLoopback() || ip.IsUnspecified() || ip.IsMulticast() || ip.IsLinkLocalUnicast() ||
		ip.Equal(cloudMetadata) {
		return errNodeAddress
	}
	return nil
}

// forget ends the calls of an Operation that needs them no more.
func (c *calls) forget(key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.made[key] {
		one.cancel()
	}
	delete(c.made, key)
}

// retain ends and forgets the calls of an Operation but for those of what is under way on record.
func (c *calls) retain(op *platformv1.Operation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	made := c.made[client.ObjectKeyFromObject(op)]
	if len(made) == 0 {
		return
	}
	underWay := opsflow.UnderWay(op)
	for key, one := range made {
		if _, is := underWay[key]; !is {
			one.cancel()
			delete(made, key)
		}
	}
}

// find returns a call that was made; nil for none.
func (c *calls) find(op types.NamespacedName, key string) (answer *opsflow.Answer, made bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one, made := c.made[op][key]
	if !made {
		return nil, false
	}
	return one.answer, true
}

// begin makes a call, unless too many are under way.
func (c *calls) begin(op *platformv1.Operation, key string, perform func(context.Context) *opsflow.Answer) (
	begun bool) {
	select {
	case c.slots <- struct{}{}:
	default:
		return false
	}
	name := client.ObjectKeyFromObject(op)
	ctx, cancel := context.WithCancel(context.Background())
	one := &call{cancel: cancel}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.made[name] == nil {
		c.made[name] = map[string]*call{}
	}
	c.made[name][key] = one
	woken := &platformv1.Operation{}
	woken.Namespace, woken.Name = op.Namespace, op.Name
	go func() {
		answer := perform(ctx)
		cancel()
		<-c.slots
		c.mu.Lock()
		one.answer = answer
		c.mu.Unlock()
		c.ended <- event.GenericEvent{Object: woken}
	}()
	return true
}

// http makes the call of a step, or looks what became of it.
func (c *Controller) http(ctx context.Context, op *platformv1.Operation,
	effect *opsflow.Effect) (*opsflow.Answer, error) {
	if answer, made := c.calls.find(client.ObjectKeyFromObject(op), effect.Key); made {
		if answer == nil {
			return later("it has not answered yet"), nil
		}
		return answer, nil
	}
	request, pool, refusal, err := c.request(ctx, op, effect.HTTP)
	if refusal != nil || err != nil {
		return refusal, err
	}
	wanted := effect.HTTP
	if !c.calls.begin(op, effect.Key, func(ctx context.Context) *opsflow.Answer {
		return c.calls.perform(ctx, wanted, request, pool)
	}) {
		return later(fmt.Sprintf("%d other calls are under way", mostCalls)), nil
	}
	return later("it has not answered yet"), nil
}

// secretRequest is a request with the secrets that are in it.
type secretRequest struct {
	*http.Request
	secrets []string
}

// request is the one that a call makes. What it has from Secrets is read with the rights of the account of the
// Operation.
func (c *Controller) request(ctx context.Context, op *platformv1.Operation, wanted *opsflow.HTTPCall) (*secretRequest,
	*x509.CertPool, *opsflow.Answer, error) {
	plain, err := http.NewRequest(wanted.Method, wanted.URL, strings.NewReader(wanted.Body))
	if err != nil {
		return nil, nil, refuse("the call cannot be made: its URL or method is not valid"), nil
	}
	request := &secretRequest{Request: plain}
	request.Header.Set(optemplate.IdempotencyHeader, wanted.Idempotency)
	as, err := c.actingAs(op)
	if err != nil {
		return nil, nil, nil, err
	}
	for _, header := range wanted.Headers {
		value := header.Value
		if header.Secret != nil {
			text, refusal, err := keyOf(ctx, as, op.Namespace, &corev1.Secret{}, header.Secret)
			if refusal != nil || err != nil {
				return nil, nil, refusal, err
			}
			if why := secretvalue.Problem(header.Secret.Name, header.Secret.Key, []byte(text)); why != "" {
				return nil, nil, refuse("the header %q cannot be set: %s", header.Name, why), nil
			}
			request.secrets = append(request.secrets, text)
			value = header.Prefix + text
		}
		request.Header.Set(header.Name, value)
	}
	if wanted.Authority == nil {
		return request, nil, nil, nil
	}
	text, refusal, err := keyOf(ctx, as, op.Namespace, &corev1.ConfigMap{}, wanted.Authority)
	if refusal != nil || err != nil {
		return nil, nil, refusal, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(text)) {
		return nil, nil, refuse("key %q of ConfigMap %q has no certificates in PEM", wanted.Authority.Key,
			wanted.Authority.Name), nil
	}
	return request, pool, nil, nil
}

// keyOf reads a key of a Secret or a ConfigMap.
func keyOf(ctx context.Context, as client.Client, namespace string, object client.Object,
	key *optemplate.KeyReference) (string, *opsflow.Answer, error) {
	err := as.Get(ctx, client.ObjectKey{Namespace: namespace, Name: key.Name}, object)
	kind, text, has := "ConfigMap", "", false
	switch from := object.(type) {
	case *corev1.Secret:
		var data []byte
		kind = "Secret"
		data, has = from.Data[key.Key]
		text = string(data)
	case *corev1.ConfigMap:
		text, has = from.Data[key.Key]
	}
	switch {
	case apierrors.IsNotFound(err) || refused(err):
		return "", refuse("cannot read %s %q: %v", kind, key.Name, err), nil
	case err != nil:
		return "", nil, fmt.Errorf("cannot read %s %q: %w", kind, key.Name, err)
	case !has:
		return "", refuse("%s %q has no key %q", kind, key.Name, key.Key), nil
	}
	return text, nil, nil
}

// perform makes a call and waits for the answer. What goes wrong says neither secrets nor the URL, which may hold one.
func (c *calls) perform(ctx context.Context, wanted *opsflow.HTTPCall, request *secretRequest,
	pool *x509.CertPool) *opsflow.Answer {
	ctx, cancel := context.WithTimeout(ctx, wanted.Within)
	defer cancel()
	transport := &http.Transport{DialContext: c.dial, DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}}
	defer transport.CloseIdleConnections()
	caller := &http.Client{Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := caller.Do(request.WithContext(ctx))
	if err != nil {
		return refuse("the call failed: %s", optemplate.Redact(cause(ctx, wanted, err), request.secrets))
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, longestResponse+1))
	switch {
	case err != nil:
		return refuse("the answer was cut off: %s", optemplate.Redact(cause(ctx, wanted, err), request.secrets))
	case len(body) > longestResponse:
		return refuse("the answer has more than %d bytes", longestResponse)
	}
	headers := map[string]string{}
	for name := range response.Header {
		headers[name] = response.Header.Get(name)
	}
	return &opsflow.Answer{HTTP: &opsflow.HTTPResponse{
		Status: response.StatusCode, Headers: headers, Body: strings.ToValidUTF8(string(body), "\uFFFD"),
		Secrets: request.secrets}}
}

// cause is why a call failed, without its URL.
func cause(ctx context.Context, wanted *opsflow.HTTPCall, err error) string {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Sprintf("there was no answer within %s", wanted.Within)
	}
	var at *url.Error
	if errors.As(err, &at) {
		err = at.Err
	}
	return err.Error()
}
