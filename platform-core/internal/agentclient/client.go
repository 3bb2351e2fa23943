// SPDX-License-Identifier: Apache-2.0

package agentclient

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/keepalive"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/agentproto/report"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
	"github.com/zeroinfra/platform-core/internal/pki"
)

// CallTimeout is the deadline of one call, the connection included.
const CallTimeout = 5 * time.Second

// idleTimeout is after how long without a call a connection is closed; the next call opens it again.
const idleTimeout = 2 * time.Minute

// Process controls the process manager of one pod. Every error is an *Error.
type Process interface {
	// Restart stops the process gracefully and starts it again. A plan that is not empty
	// (JSON of agentproto/plan.Plan) replaces the present one in between. A repeated key does
	// nothing again and returns the record of the first call. A plan with what the agent is too old for is refused.
	Restart(ctx context.Context, key string, plan []byte) (report.Call, error)
	// Reload has the process take over the plan as the plan itself declares. Key as in Restart.
	Reload(ctx context.Context, key string, plan []byte) (report.Call, error)
	// Start starts the process that was stopped. Key as in Restart.
	Start(ctx context.Context, key string) (report.Call, error)
	// Stop stops the process gracefully, until it is started; a restart of the container does not start it either. Key as
	// in Restart.
	Stop(ctx context.Context, key string) (report.Call, error)
	// Signal sends the process a signal, for example SIGHUP. Key as in Restart.
	Signal(ctx context.Context, key, signal string) (report.Call, error)
	// Status returns the present state; it changes nothing.
	Status(ctx context.Context) (*agentv1.ProcessStatus, error)
	// Memory returns how many bytes the processes of the container use that cannot be taken back from them; 0 when the
	// agent does not tell: it is of an earlier version, or its node keeps no account.
	Memory(ctx context.Context) (int64, error)
}

// Dialer finds the process manager of a pod.
type Dialer interface {
	// Dial returns the process manager of the pod. It does not wait for a connection: the first call makes it.
	// It fails when the pod has no address yet.
	Dial(ctx context.Context, pod *corev1.Pod) (Process, error)
}

// Connections is the Dialer for real pods. It is safe for concurrent use.
type Connections struct {
	authority *pki.Authority
	port      int
	opsPort   int
	maxOpen   int

	mu   sync.Mutex
	open map[endpoint]*connection
}

// endpoint is one agent of one pod.
type endpoint struct {
	pod  types.UID
	port int
}

// Option changes how Connections work.
type Option func(*Connections)

// WithPort has the agents called on a port other than plan.ProcessPort.
func WithPort(port int) Option {
	return func(c *Connections) { c.port = port }
}

// WithOpsPort has the ops agents called on a port other than plan.OpsPort.
func WithOpsPort(port int) Option {
	return func(c *Connections) { c.opsPort = port }
}

// New returns Connections that prove themselves with certificates of the authority.
func New(authority *pki.Authority, options ...Option) *Connections {
	c := &Connections{authority: authority, port: plan.ProcessPort, opsPort: plan.OpsPort, maxOpen: DefaultMaxOpen,
		open: map[endpoint]*connection{}}
	for _, option := range options {
		option(c)
	}
	return c
}

// Dial implements Dialer. The connection is kept under the pod's UID until Forget, or until more than the bound are
// kept.
func (c *Connections) Dial(_ context.Context, pod *corev1.Pod) (Process, error) {
	a, to, err := c.dial(pod, c.port)
	if err != nil {
		return nil, err
	}
	return &process{agent: a, line: to, client: agentv1.NewProcessServiceClient(to)}, nil
}

// dial returns the way to an agent of a pod, and who that is.
func (c *Connections) dial(pod *corev1.Pod, port int) (agent, *line, error) {
	name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	if pod.Status.PodIP == "" {
		return agent{}, nil, &Error{Pod: name, Method: "Dial", Kind: Unreachable,
			Problem: "the pod has no address yet: check that it is scheduled and running"}
	}
	to := c.line(name, pod.UID, pod.Status.PodIP, port)
	return agent{pod: name, address: to.address}, to, nil
}

func (c *Connections) connect(address string, as present) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(as),
		grpc.WithNoProxy(),
		grpc.WithIdleTimeout(idleTimeout),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 5 * time.Second}),
		// A pod that comes back is to be found soon: the default waits up to two minutes.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2,
				MaxDelay: time.Second},
			MinConnectTimeout: CallTimeout,
		}),
	)
}

// Forget closes the connections to the pod with this UID, if there are any.
func (c *Connections) Forget(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, port := range []int{c.port, c.opsPort} {
		key := endpoint{uid, port}
		if known := c.open[key]; known != nil {
			_ = known.conn.Close()
			delete(c.open, key)
		}
	}
}

// Handler returns the event handler for the informer of pods that forgets each pod that is gone.
func (c *Connections) Handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{DeleteFunc: func(object any) {
		if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = tombstone.Obj
		}
		if pod, ok := object.(interface{ GetUID() types.UID }); ok {
			c.Forget(pod.GetUID())
		}
	}}
}

// Close closes every connection.
func (c *Connections) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, known := range c.open {
		_ = known.conn.Close()
		delete(c.open, key)
	}
}

// Len returns the number of agents to which a connection is kept.
func (c *Connections) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open)
}

// agent is one that is called.
type agent struct {
	pod     types.NamespacedName
	address string
}

// process is the Process of one pod.
type process struct {
	agent
	line   *line
	client agentv1.ProcessServiceClient
}

// Restart implements Process.
func (p *process) Restart(ctx context.Context, key string, plan []byte) (report.Call, error) {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	if err := p.heeds(ctx, "Restart", plan); err != nil {
		return report.Call{}, err
	}
	response, err := p.client.Restart(ctx, &agentv1.RestartRequest{Header: header(ctx, key), Plan: plan})
	return p.call("Restart", response, err)
}

// Reload implements Process.
func (p *process) Reload(ctx context.Context, key string, plan []byte) (report.Call, error) {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	if err := p.heeds(ctx, "Reload", plan); err != nil {
		return report.Call{}, err
	}
	response, err := p.client.Reload(ctx, &agentv1.ReloadRequest{Header: header(ctx, key), Plan: plan})
	return p.call("Reload", response, err)
}

// Start implements Process.
func (p *process) Start(ctx context.Context, key string) (report.Call, error) {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	response, err := p.client.Start(ctx, &agentv1.StartRequest{Header: header(ctx, key)})
	return p.call("Start", response, err)
}

// Stop implements Process.
func (p *process) Stop(ctx context.Context, key string) (report.Call, error) {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	response, err := p.client.Stop(ctx, &agentv1.StopRequest{Header: header(ctx, key)})
	return p.call("Stop", response, err)
}

// Signal implements Process.
func (p *process) Signal(ctx context.Context, key, signal string) (report.Call, error) {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	response, err := p.client.Signal(ctx, &agentv1.SignalRequest{Header: header(ctx, key), Signal: signal})
	return p.call("Signal", response, err)
}

// Status implements Process.
func (p *process) Status(ctx context.Context) (*agentv1.ProcessStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	status, err := p.client.GetStatus(ctx, &agentv1.GetStatusRequest{})
	if err != nil {
		return nil, p.failure("GetStatus", err)
	}
	return status, nil
}

func (p *process) call(method string, response *agentv1.CallResponse, err error) (report.Call, error) {
	if err != nil {
		return report.Call{}, p.failure(method, err)
	}
	return p.callOf(method, response.GetCall())
}

var phases = map[agentv1.CallPhase]string{
	agentv1.CallPhase_CALL_PHASE_RUNNING:     report.CallRunning,
	agentv1.CallPhase_CALL_PHASE_SUCCEEDED:   report.CallSucceeded,
	agentv1.CallPhase_CALL_PHASE_FAILED:      report.CallFailed,
	agentv1.CallPhase_CALL_PHASE_INTERRUPTED: report.CallInterrupted,
}

// callOf reads a record of an agent.
func (a agent) callOf(method string, record *agentv1.CallRecord) (report.Call, error) {
	phase, known := phases[record.GetPhase()]
	if !known {
		return report.Call{}, &Error{Pod: a.pod, Address: a.address, Method: method, Kind: Refused,
			Problem: fmt.Sprintf("the agent's answer has phase %s, which this operator does not know: upgrade the operator",
				record.GetPhase())}
	}
	return report.Call{Key: record.GetIdempotencyKey(), Phase: phase, Reason: record.GetReason(),
		Message: record.GetMessage()}, nil
}

// termKey is the key of the term in a context.
type termKey struct{}

// Within returns a context whose calls are made in a term: an agent that knows of a later one does not do them. Term 0
// is that of a set whose writer nobody names, and is always right.
func Within(ctx context.Context, term int64) context.Context {
	return context.WithValue(ctx, termKey{}, uint64(max(0, term)))
}

// TermOf is the term that calls with a context are made in.
func TermOf(ctx context.Context) uint64 {
	term, _ := ctx.Value(termKey{}).(uint64)
	return term
}

func header(ctx context.Context, key string) *agentv1.CallHeader {
	return &agentv1.CallHeader{IdempotencyKey: key, Term: TermOf(ctx)}
}
