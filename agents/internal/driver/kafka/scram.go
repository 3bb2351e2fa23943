// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"strconv"
	"strings"
)

const (
	// gs2Header says that the client knows no channel binding (RFC 5802, section 7).
	gs2Header = "n,,"
	// maxIterations bounds what a server can make a login cost.
	maxIterations = 1 << 20
	saltBytes     = 32
)

// errServer says that the server is not who it says it is, or that its words cannot be read.
var errServer = errors.New("the server does not prove that it knows the password")

// scramClient is the client's side of SCRAM (RFC 5802 and 7677) for one login.
type scramClient struct {
	// digest is SHA-512 where nothing else is said.
	digest   func() hash.Hash
	password string
	nonce    string
	bare     string
	server   []byte
	steps    int
}

// Begin implements sarama.SCRAMClient.
func (c *scramClient) Begin(username, password, _ string) error {
	c.password, c.nonce = password, rand.Text()
	c.bare = "n=" + strings.NewReplacer("=", "=3D", ",", "=2C").Replace(username) + ",r=" + c.nonce
	return nil
}

// Done implements sarama.SCRAMClient.
func (c *scramClient) Done() bool { return c.steps == 3 }

// Step implements sarama.SCRAMClient.
func (c *scramClient) Step(challenge string) (string, error) {
	c.steps++
	switch c.steps {
	case 1:
		return gs2Header + c.bare, nil
	case 2:
		return c.prove(challenge)
	}
	proof, err := base64.StdEncoding.DecodeString(attributes(challenge)["v"])
	if err != nil || len(c.server) == 0 || subtle.ConstantTimeCompare(proof, c.server) != 1 {
		return "", errServer
	}
	return "", nil
}

// prove answers the server's first message.
func (c *scramClient) prove(first string) (string, error) {
	said := attributes(first)
	salt, err := base64.StdEncoding.DecodeString(said["s"])
	iterations, wrong := strconv.Atoi(said["i"])
	if err != nil || wrong != nil || iterations < 1 || iterations > maxIterations ||
		!strings.HasPrefix(said["r"], c.nonce) || said["r"] == c.nonce {
		return "", fmt.Errorf("the server's first message of SCRAM cannot be read: %w", errServer)
	}
	digest := c.digest
	if digest == nil {
		digest = sha512.New
	}
	salted, err := pbkdf2.Key(digest, c.password, salt, iterations, digest().Size())
	if err != nil {
		return "", err
	}
	last := "c=" + base64.StdEncoding.EncodeToString([]byte(gs2Header)) + ",r=" + said["r"]
	message := c.bare + "," + first + "," + last
	client := sign(digest, salted, "Client Key")
	stored := digest()
	stored.Write(client)
	proof := sign(digest, stored.Sum(nil), message)
	subtle.XORBytes(proof, proof, client)
	c.server = sign(digest, sign(digest, salted, "Server Key"), message)
	return last + ",p=" + base64.StdEncoding.EncodeToString(proof), nil
}

// attributes of a message, by letter.
func attributes(message string) map[string]string {
	all := map[string]string{}
	for part := range strings.SplitSeq(message, ",") {
		if name, value, ok := strings.Cut(part, "="); ok {
			all[name] = value
		}
	}
	return all
}

func sign(digest func() hash.Hash, key []byte, message string) []byte {
	mac := hmac.New(digest, key)
	mac.Write([]byte(message))
	return mac.Sum(nil)
}

// newSalt of a credential.
func newSalt() []byte {
	salt := make([]byte, saltBytes)
	// It never fails.
	_, _ = rand.Read(salt)
	return salt
}
