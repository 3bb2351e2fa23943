// SPDX-License-Identifier: Apache-2.0

package agentclient

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

// PermissionTimeout is the deadline of a call about who may write, the connection included: who does not answer at once
// is not waited for.
const PermissionTimeout = time.Second

// Permission is the part of one pod in who may write. Every error is an *Error.
type Permission interface {
	// Promise has the member acknowledge no term lower than this one. The process of a writer of a lower one has ended
	// then.
	Promise(ctx context.Context, term int64) (*agentv1.MemberStatus, error)
	// Learn tells the member what the record is.
	Learn(ctx context.Context, record *agentv1.PrimaryRecord) (*agentv1.MemberStatus, error)
	// Member asks how the member is; it changes nothing.
	Member(ctx context.Context) (*agentv1.MemberStatus, error)
}

// PermissionDialer finds that part of a pod.
type PermissionDialer interface {
	// DialPermission is to Permission what Dialer.Dial is to Process.
	DialPermission(ctx context.Context, pod *corev1.Pod) (Permission, error)
}

// DialPermission implements PermissionDialer.
func (c *Connections) DialPermission(_ context.Context, pod *corev1.Pod) (Permission, error) {
	a, conn, err := c.dial(pod, c.port)
	if err != nil {
		return nil, err
	}
	return &permission{agent: a, client: agentv1.NewPermissionServiceClient(conn)}, nil
}

type permission struct {
	agent
	client agentv1.PermissionServiceClient
}

// Promise implements Permission.
func (p *permission) Promise(ctx context.Context, term int64) (*agentv1.MemberStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, PermissionTimeout)
	defer cancel()
	status, err := p.client.Promise(ctx, &agentv1.PromiseRequest{Term: term})
	return p.answer("Promise", status, err)
}

// Learn implements Permission.
func (p *permission) Learn(ctx context.Context, record *agentv1.PrimaryRecord) (*agentv1.MemberStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, PermissionTimeout)
	defer cancel()
	status, err := p.client.Learn(ctx, &agentv1.LearnRequest{Record: record})
	return p.answer("Learn", status, err)
}

// Member implements Permission.
func (p *permission) Member(ctx context.Context) (*agentv1.MemberStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, PermissionTimeout)
	defer cancel()
	status, err := p.client.GetMember(ctx, &agentv1.GetMemberRequest{})
	return p.answer("GetMember", status, err)
}

func (p *permission) answer(method string, status *agentv1.MemberStatus, err error) (*agentv1.MemberStatus, error) {
	if err != nil {
		return nil, p.failure(method, err)
	}
	return status, nil
}
