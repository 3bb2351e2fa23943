// SPDX-License-Identifier: Apache-2.0

package follow

import (
	"context"
	"log/slog"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/zeroinfra/platform-core/agentproto/permission"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
)

const (
	// readTimeout bounds a read. What comes later helps nobody: a permission counts from when the read was wanted.
	readTimeout = 3 * time.Second
	// unknown is how long to wait where the process manager is of a version that wants no reads.
	unknown = 10 * time.Second
)

// Reader reads the record of a WorkloadSet, from the API server itself and not from a cache.
type Reader func(ctx context.Context, set string) (permission.Record, error)

// Reads reads whenever the process manager wants it, and at no other time, until the context ends.
func Reads(ctx context.Context, socket string, read Reader, log *slog.Logger) {
	conn, err := connect(socket)
	if err != nil {
		log.Error("cannot ask the process manager which reads it wants", "error", err.Error())
		return
	}
	defer conn.Close()
	client := agentv1.NewPermissionServiceClient(conn)
	for ctx.Err() == nil {
		pause := reconnect
		if err := serveReads(ctx, client, read); status.Code(err) == codes.Unimplemented {
			pause = unknown
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// serveReads follows one stream to its end.
func serveReads(ctx context.Context, client agentv1.PermissionServiceClient, read Reader) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := client.WatchReads(ctx, &agentv1.WatchReadsRequest{}, grpc.WaitForReady(true))
	if err != nil {
		return err
	}
	// A later wish ends the read for the one before.
	end := func() {}
	for {
		wanted, err := stream.Recv()
		end()
		if err != nil {
			return err
		}
		var reading context.Context
		reading, end = context.WithTimeout(ctx, readTimeout)
		go func() {
			answer := answerTo(reading, wanted, read)
			// Where this fails, another read is wanted soon.
			_, _ = client.AnswerRead(ctx, answer)
		}()
	}
}

func answerTo(ctx context.Context, wanted *agentv1.WantedRead, read Reader) *agentv1.AnswerReadRequest {
	record, err := read(ctx, wanted.GetSet())
	if err != nil {
		return &agentv1.AnswerReadRequest{Id: wanted.GetId(), Outcome: &agentv1.AnswerReadRequest_Error{Error: err.Error()}}
	}
	return &agentv1.AnswerReadRequest{Id: wanted.GetId(),
		Outcome: &agentv1.AnswerReadRequest_Record{Record: wireRecord(record)}}
}

func wireRecord(r permission.Record) *agentv1.PrimaryRecord {
	wire := &agentv1.PrimaryRecord{Term: r.Term, List: wireList(r.List)}
	if r.Primary != nil {
		wire.Primary = wireMember(*r.Primary)
	}
	if r.Previous != nil {
		wire.Previous = wireList(*r.Previous)
	}
	return wire
}

func wireList(l permission.List) *agentv1.MemberList {
	list := &agentv1.MemberList{Version: l.Version, SynchronousReplicas: int32(l.SynchronousReplicas)}
	for _, m := range l.Members {
		list.Members = append(list.Members, wireMember(m))
	}
	return list
}

func wireMember(m permission.Member) *agentv1.Member {
	return &agentv1.Member{Name: m.Name, Identity: m.Identity}
}
