// SPDX-License-Identifier: Apache-2.0

package minio

import (
	"bytes"
	"context"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/minio/minio-go/v7/pkg/signer"
	"github.com/secure-io/sio-go"
)

// admin is MinIO's own API for what S3 has no word for: requests that are signed like those of S3, with JSON in them.
// Its authors' client library is under a licence that the agents are not under.
type admin struct {
	client             *http.Client
	base               string
	username, password string
}

const (
	adminPath = "/minio/admin/v3/"
	// maxAnswer is how many bytes of one answer are read.
	maxAnswer = 1 << 20
)

// adminError is a refusal in the server's words.
type adminError struct {
	Code, Message string
}

// Error implements error.
func (e adminError) Error() string { return e.Message }

// call makes one request. What it gives is read into answer, unless that is nil.
func (a *admin) call(ctx context.Context, method, name string, query url.Values, body []byte, answer any) error {
	data, err := a.ask(ctx, method, name, query, body)
	if err != nil || answer == nil {
		return err
	}
	if err := json.Unmarshal(data, answer); err != nil {
		return fmt.Errorf("cannot read what MinIO answers to %s: %w", name, err)
	}
	return nil
}

// ask makes one request, and returns what it gives.
func (a *admin) ask(ctx context.Context, method, name string, query url.Values, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, a.base+adminPath+name+"?"+query.Encode(),
		bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(body)
	request.Header.Set("X-Amz-Content-Sha256", hex.EncodeToString(sum[:]))
	response, err := a.client.Do(signer.SignV4(*request, a.username, a.password, "", region))
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusNoContent {
		refused := adminError{}
		if json.Unmarshal(data, &refused) != nil || refused.Code == "" {
			return nil, fmt.Errorf("MinIO answers %s with the status %d", name, response.StatusCode)
		}
		return nil, refused
	}
	return data, nil
}

// userInfo is what MinIO tells of a user.
type userInfo struct {
	Policies string `json:"policyName"`
	Status   string `json:"status"`
}

// What a user's status can be.
const (
	userEnabled  = "enabled"
	userDisabled = "disabled"
)

func (a *admin) user(ctx context.Context, name string) (info userInfo, err error) {
	err = a.call(ctx, http.MethodGet, "user-info", url.Values{"accessKey": {name}}, nil, &info)
	return info, err
}

// setUser makes a user, or gives it another key and status.
func (a *admin) setUser(ctx context.Context, name, key, status string) error {
	body, err := json.Marshal(map[string]string{"secretKey": key, "status": status})
	if err != nil {
		return err
	}
	sealed, err := seal(a.password, body)
	if err != nil {
		return err
	}
	return a.call(ctx, http.MethodPut, "add-user", url.Values{"accessKey": {name}}, sealed, nil)
}

func (a *admin) removeUser(ctx context.Context, name string) error {
	return a.call(ctx, http.MethodDelete, "remove-user", url.Values{"accessKey": {name}}, nil, nil)
}

// setPolicies gives a user these policies, with commas between them, and no others: at once, so that it never has more
// or less than was asked.
func (a *admin) setPolicies(ctx context.Context, user, policies string) error {
	return a.call(ctx, http.MethodPut, "set-user-or-group-policy",
		url.Values{"policyName": {policies}, "userOrGroup": {user}, "isGroup": {"false"}}, nil, nil)
}

// policy returns the document of a policy.
func (a *admin) policy(ctx context.Context, name string) (string, error) {
	var info struct{ Policy json.RawMessage }
	err := a.call(ctx, http.MethodGet, "info-canned-policy", url.Values{"name": {name}, "v": {"2"}}, nil, &info)
	return string(info.Policy), err
}

func (a *admin) setPolicy(ctx context.Context, name, document string) error {
	return a.call(ctx, http.MethodPut, "add-canned-policy", url.Values{"name": {name}}, []byte(document), nil)
}

func (a *admin) removePolicy(ctx context.Context, name string) error {
	return a.call(ctx, http.MethodDelete, "remove-canned-policy", url.Values{"name": {name}}, nil, nil)
}

// quota of a bucket in bytes; 0 for none.
func (a *admin) quota(ctx context.Context, bucket string) (uint64, error) {
	var quota struct {
		// An earlier MinIO knew but the first.
		Quota uint64 `json:"quota"`
		Size  uint64 `json:"size"`
	}
	err := a.call(ctx, http.MethodGet, "get-bucket-quota", url.Values{"bucket": {bucket}}, nil, &quota)
	return max(quota.Quota, quota.Size), err
}

func (a *admin) setQuota(ctx context.Context, bucket string, size uint64) error {
	body, err := json.Marshal(map[string]any{"quota": size, "size": size, "quotatype": "hard"})
	if err != nil {
		return err
	}
	return a.call(ctx, http.MethodPut, "set-bucket-quota", url.Values{"bucket": {bucket}}, body, nil)
}

// How a body with a key in it is encrypted: the password of root makes the key, by this way of the three that MinIO
// takes, since it takes no 64 MiB of memory.
const (
	saltSize   = 32
	iterations = 8192
	keySize    = 32
	pbkdf2GCM  = 0x02
)

// seal encrypts a body: salt, way, nonce, content.
func seal(password string, body []byte) ([]byte, error) {
	salt := make([]byte, saltSize)
	if _, err := rand.Read(salt); err != nil {
		return nil, err
	}
	key, err := pbkdf2.Key(sha256.New, password, salt, iterations, keySize)
	if err != nil {
		return nil, err
	}
	stream, err := sio.AES_256_GCM.Stream(key)
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, stream.NonceSize())
	if _, err := rand.Read(nonce); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	out.Write(salt)
	out.WriteByte(pbkdf2GCM)
	out.Write(nonce)
	content := stream.EncryptWriter(&out, nonce, nil)
	if _, err := content.Write(body); err != nil {
		return nil, err
	}
	if err := content.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
