// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/agentproto/report"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// serve answers for the process managers of all pods: every address of a pod leads here, and
// the name that the caller expects says which pod is meant.
func (s *Simulator) serve(ctx context.Context) error {
	listener, err := net.Listen("tcp", ":"+strconv.Itoa(plan.ProcessPort))
	if err != nil {
		return fmt.Errorf("cannot serve process managers: %w", err)
	}
	identity := &tls.Config{MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			return s.identity(ctx, hello.ServerName)
		}}
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(identity)))
	agentv1.RegisterProcessServiceServer(server, &processes{simulator: s, ctx: ctx})
	stop := context.AfterFunc(ctx, server.Stop)
	defer stop()
	if err := server.Serve(listener); err != nil {
		return fmt.Errorf("cannot serve process managers: %w", err)
	}
	return nil
}

// identity is the certificate of a pod, and whom it trusts.
func (s *Simulator) identity(ctx context.Context, serverName string) (*tls.Config, error) {
	name, err := podOf(serverName)
	if err != nil {
		return nil, err
	}
	secret := &corev1.Secret{}
	key := types.NamespacedName{Namespace: name.Namespace, Name: platformv1.AgentCertificateNameFor(name.Name)}
	if err := s.kubelet.Get(ctx, key, secret); err != nil {
		return nil, fmt.Errorf("cannot read the certificate of pod %q: %w", name, err)
	}
	pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, fmt.Errorf("cannot use the certificate of pod %q: %w", name, err)
	}
	callers := x509.NewCertPool()
	if !callers.AppendCertsFromPEM(secret.Data["ca.crt"]) {
		return nil, fmt.Errorf("the Secret of pod %q has no certificate of an authority", name)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2"},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: callers,
	}, nil
}

// podOf reads the pod from the name that its certificate is for: "<pod>.<namespace>.agent…".
func podOf(serverName string) (types.NamespacedName, error) {
	pod, rest, _ := strings.Cut(serverName, ".")
	namespace, rest, _ := strings.Cut(rest, ".")
	if pod == "" || namespace == "" || !strings.HasPrefix(rest, "agent.") {
		return types.NamespacedName{}, fmt.Errorf("%q is the name of no pod's agent", serverName)
	}
	return types.NamespacedName{Namespace: namespace, Name: pod}, nil
}

// processes is the process manager of every pod.
type processes struct {
	agentv1.UnimplementedProcessServiceServer
	simulator *Simulator
	// ctx is that of the simulator: a report outlives the call that causes it.
	ctx context.Context
}

// Restart implements the process manager.
func (p *processes) Restart(ctx context.Context, request *agentv1.RestartRequest) (*agentv1.CallResponse, error) {
	return p.call(ctx, restarts, request.GetHeader(), request.GetPlan())
}

// Reload implements the process manager.
func (p *processes) Reload(ctx context.Context, request *agentv1.ReloadRequest) (*agentv1.CallResponse, error) {
	return p.call(ctx, reloads, request.GetHeader(), request.GetPlan())
}

func (p *processes) call(ctx context.Context, what effect, header *agentv1.CallHeader,
	text []byte) (*agentv1.CallResponse, error) {
	m, err := p.callee(ctx)
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	record, err := m.call(what, header.GetIdempotencyKey(), text)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	go p.simulator.report(p.ctx, m)
	phase := agentv1.CallPhase_CALL_PHASE_SUCCEEDED
	if record.Phase == report.CallFailed {
		phase = agentv1.CallPhase_CALL_PHASE_FAILED
	}
	return &agentv1.CallResponse{Call: &agentv1.CallRecord{
		IdempotencyKey: record.Key, Method: string(what), Phase: phase, Reason: record.Reason, Message: record.Message,
	}}, nil
}

// callee is the pod that a call is for.
func (p *processes) callee(ctx context.Context) (*member, error) {
	caller, _ := peer.FromContext(ctx)
	if caller == nil {
		return nil, errors.New("the call comes from nowhere")
	}
	secured, ok := caller.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return nil, errors.New("the call is not encrypted")
	}
	name, err := podOf(secured.State.ServerName)
	if err != nil {
		return nil, err
	}
	return p.simulator.pods.find(name)
}
