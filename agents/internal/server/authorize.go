// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/zeroinfra/agents/internal/mutualtls"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

// forPods is the one method of all services that the agents of other pods may call, and nobody else.
const forPods = agentv1.PermissionService_Acknowledge_FullMethodName

// callerOf says who calls over mutual TLS.
func callerOf(ctx context.Context) (mutualtls.Caller, error) {
	from, ok := peer.FromContext(ctx)
	if !ok {
		return mutualtls.Caller{}, status.Error(codes.Unauthenticated, "nothing is known of the caller")
	}
	info, ok := from.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return mutualtls.Caller{}, status.Error(codes.Unauthenticated, "the caller does not speak TLS")
	}
	caller, err := mutualtls.CallerOf(info.State)
	if err != nil {
		return mutualtls.Caller{}, status.Error(codes.Unauthenticated, err.Error())
	}
	return caller, nil
}

// authorize refuses a method that the caller may not call.
func authorize(ctx context.Context, method string) error {
	caller, err := callerOf(ctx)
	if err != nil {
		return err
	}
	if caller.Operator() == (method == forPods) {
		return status.Errorf(codes.PermissionDenied, "%s may not call %s", caller, method)
	}
	return nil
}

// authorized are the options of a server that looks at each call; before is called first.
func authorized(before func()) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.UnaryInterceptor(func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (
			any, error) {
			before()
			if err := authorize(ctx, info.FullMethod); err != nil {
				return nil, err
			}
			return handle(ctx, request)
		}),
		grpc.StreamInterceptor(func(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo,
			handle grpc.StreamHandler) error {
			before()
			if err := authorize(stream.Context(), info.FullMethod); err != nil {
				return err
			}
			return handle(server, stream)
		}),
	}
}
