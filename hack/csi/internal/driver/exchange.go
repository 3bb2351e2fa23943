// SPDX-License-Identifier: Apache-2.0

//go:build linux

package driver

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/url"
	"os"
	"strconv"

	"github.com/zeroinfra/hack/csi/internal/store"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// SourceKey is the metadata of a call that says at which address the source's
// node answers.
const SourceKey = "source-address"

// sizeHeader tells how large a snapshot is.
const sizeHeader = "Snapshot-Size"

// Files serves this node's snapshots to other nodes.
func (d *Driver) Files() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /snapshots/{id}", d.send)
	return mux
}

func (d *Driver) send(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	unlock, err := d.busy.lock(r.Context(), aside(id))
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer unlock()
	s, err := d.store.Snapshot(id)
	if errors.Is(err, store.ErrAbsent) {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	file, err := os.Open(d.store.SnapshotImage(id))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer file.Close()
	w.Header().Set(sizeHeader, strconv.FormatInt(s.Size, 10))
	w.WriteHeader(http.StatusOK)
	if err := store.Send(r.Context(), w, file); err != nil {
		// The other side knows by the missing end.
		log.Printf("cannot send snapshot %q: %v", id, err)
	}
}

// FetchWith returns a Fetch that asks the snapshot's node.
func FetchWith(client *http.Client) Fetch {
	return func(ctx context.Context, handle string, into *os.File) error {
		md, _ := metadata.FromIncomingContext(ctx)
		addresses := md.Get(SourceKey)
		if len(addresses) != 1 {
			return status.Errorf(codes.NotFound, "snapshot %q is on no node that is known", handle)
		}
		_, id := Split(handle)
		from := url.URL{Scheme: "https", Host: addresses[0], Path: "/snapshots/" + id}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, from.String(), nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return status.Errorf(codes.Unavailable, "cannot reach the node of snapshot %q: %v", handle, err)
		}
		defer response.Body.Close()
		switch response.StatusCode {
		case http.StatusOK:
		case http.StatusNotFound:
			return fmt.Errorf("snapshot %q: %w", handle, store.ErrAbsent)
		default:
			return status.Errorf(codes.Unavailable, "the node of snapshot %q answers %s", handle, response.Status)
		}
		return receive(response, handle, into)
	}
}

func receive(response *http.Response, handle string, into *os.File) error {
	size, err := strconv.ParseInt(response.Header.Get(sizeHeader), 10, 64)
	if err != nil {
		return fmt.Errorf("the node of snapshot %q does not say how large it is: %w", handle, err)
	}
	info, err := into.Stat()
	if err != nil {
		return err
	}
	if info.Size() < size {
		return tooSmall(info.Size(), size)
	}
	return store.Receive(into, response.Body)
}
