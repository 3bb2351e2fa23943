// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/zeroinfra/agents/internal/store"
	"github.com/zeroinfra/platform-core/agentproto/mover"
)

// maxMessage is how many bytes a message has at most.
const maxMessage = 1500

// ErrTerminated is the cause of a context that ends because the mover is to.
var ErrTerminated = errors.New("the mover was told to end")

// failure is an error that has a reason.
type failure struct{ reason, message string }

// Error implements error.
func (f *failure) Error() string { return f.message }

func fail(reason, format string, args ...any) error {
	return &failure{reason, fmt.Sprintf(format, args...)}
}

func damaged(format string, args ...any) error { return fail(mover.ReasonDamaged, format, args...) }

// reasonOf an error. What says nothing else is of the repository: it is all that is asked.
func reasonOf(err error) string {
	var known *failure
	switch {
	case errors.As(err, &known):
		return known.reason
	case errors.Is(err, ErrTerminated) || errors.Is(err, context.Canceled):
		return mover.ReasonTerminated
	case errors.As(err, new(store.Refused)) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS):
		return mover.ReasonRefused
	case errors.As(err, new(store.Full)) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT):
		return mover.ReasonNoRoom
	}
	return mover.ReasonUnreachable
}

// failed is the result of an error. What is secret is not in it.
func failed(err error, hide secrets) mover.Result {
	return mover.Result{Reason: reasonOf(err), Message: shortened(hide.from(err.Error()), maxMessage)}
}

// kept is the result that tells of a backup.
func kept(manifest *mover.Manifest, digest string) mover.Result {
	result := mover.Result{Digest: digest, RawSize: manifest.RawSize, Facts: manifest.Facts, Size: manifest.Metadata.Size}
	for _, part := range manifest.Parts {
		result.Size += part.Size
	}
	if manifest.Files != nil {
		result.Size += manifest.Files.Added
	}
	if manifest.Objects != nil {
		result.RawSize = manifest.Objects.Size
		for _, pack := range manifest.Objects.Packs {
			if strings.HasPrefix(pack.Name, path.Base(manifest.Key)+"/") {
				result.Size += pack.Size
			}
		}
	}
	if len(manifest.Streams) == 0 {
		return result
	}
	result.Streams, result.Facts = map[string]int64{}, maps.Clone(manifest.Facts)
	if result.Facts == nil {
		result.Facts = map[string]string{}
	}
	for _, s := range manifest.Streams {
		result.Streams[s.Name] = s.RawSize
		for key, value := range s.Facts {
			result.Facts[key+"."+s.Name] = value
		}
	}
	return result
}

// shortened cuts the end of a text, at a character.
func shortened(text string, size int) string {
	if text = strings.ToValidUTF8(text, "?"); len(text) <= size {
		return text
	}
	for size -= len("…"); size > 0 && !utf8.RuneStart(text[size]); size-- {
	}
	return text[:size] + "…"
}

// Encode is a result as a termination message, of mover.MaxResult bytes at most.
func Encode(result mover.Result) ([]byte, error) {
	for {
		text, err := json.Marshal(result)
		if err != nil || len(text) <= mover.MaxResult {
			return text, err
		}
		switch {
		case len(result.Backups) > 0 && len(result.Backups) >= len(result.Leftovers):
			result.Backups = result.Backups[:len(result.Backups)-1-len(result.Backups)/16]
		case len(result.Leftovers) > 0:
			result.Leftovers = result.Leftovers[:len(result.Leftovers)-1-len(result.Leftovers)/16]
		case len(result.Streams) > 0 && len(result.Facts) > 0:
			// They are in the manifest.
			result.Facts = nil
		case len(result.Message) > 16:
			result.Message = shortened(result.Message, len(result.Message)*3/4)
		default:
			return nil, fmt.Errorf("the result has %d bytes, more than %d", len(text), mover.MaxResult)
		}
	}
}
