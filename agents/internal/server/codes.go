// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"

	"google.golang.org/grpc/codes"

	"github.com/zeroinfra/agents/internal/callrecord"
)

// ErrorCode is what a caller is told of an error.
type ErrorCode struct {
	Err  error
	Code codes.Code
}

// codesOfRecords are those of the errors that every service which keeps records of its calls has.
var codesOfRecords = []ErrorCode{
	{callrecord.ErrBadKey, codes.InvalidArgument},
	{callrecord.ErrKeyReused, codes.InvalidArgument},
	// Who calls has yet to see what was written meanwhile, and calls again then.
	{callrecord.ErrStaleTerm, codes.Aborted},
}

// CodeOf says what a caller can do about an error: one of the records of calls, or one that is the service's own. The
// default is something that may be well the next time, such as a record that could not be written.
func CodeOf(err error, own []ErrorCode) codes.Code {
	for _, known := range [][]ErrorCode{codesOfRecords, own} {
		for _, k := range known {
			if errors.Is(err, k.Err) {
				return k.Code
			}
		}
	}
	return codes.Unavailable
}
