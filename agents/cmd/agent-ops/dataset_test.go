// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroinfra/agents/internal/datasetfile"
	"github.com/zeroinfra/agents/internal/testbucket"
	"github.com/zeroinfra/platform-core/agentproto/transfer"
)

// fetchDataset fetches into a folder by flags.
func fetchDataset(t *testing.T, folder string, args ...string) (datasetfile.Result, error) {
	t.Helper()
	f, cmd := &datasetFetching{fetcher: datasetfile.Fetcher{Pause: time.Millisecond}}, &cobra.Command{}
	f.add(cmd)
	if err := cmd.ParseFlags(append(args, "--into="+folder)); err != nil {
		t.Fatal(err)
	}
	return f.run(t.Context(), slog.New(slog.DiscardHandler))
}

func sha256Of(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

// The files of a version come from a bucket, named one by one or by a manifest that the bucket has.
func TestDatasetIsFetchedFromABucket(t *testing.T) {
	const csv, notes = "1,2\n", "text"
	manifest := sha256Of(csv) + "  train/a.csv\n" + sha256Of(notes) + "  notes.txt\n"
	endpoint := testbucket.Bucket{Name: "data", Region: "eu-west-1", Objects: map[string][]byte{
		"sets/points/train/a.csv": []byte(csv), "sets/points/notes.txt": []byte(notes),
		"sets/points/SHA256SUMS": []byte(manifest)}}.Serve(t)
	from := []string{"--endpoint=" + endpoint, "--region=eu-west-1", "--bucket=data", "--prefix=sets/points/"}
	named := []string{"--file=" + sha256Of(csv) + ":4:train/a.csv", "--file=" + sha256Of(notes) + ":0:notes.txt"}
	t.Setenv(datasetAccessKey, testbucket.Account)
	t.Setenv(datasetSecretKey, "key")
	var digests []string
	for title, files := range map[string][]string{
		"files": named, "manifest": {"--manifest=" + sha256Of(manifest) + ":0:SHA256SUMS"},
	} {
		folder := t.TempDir()
		result, err := fetchDataset(t, folder, append(files, from...)...)
		if err != nil {
			t.Fatalf("%s: %v", title, err)
		}
		if result.Files != 2 || result.Bytes != 8 {
			t.Errorf("%s: got %+v", title, result)
		}
		digests = append(digests, result.Digest)
		for path, want := range map[string]string{"train/a.csv": csv, "notes.txt": notes} {
			if got, err := os.ReadFile(filepath.Join(folder, path)); err != nil || string(got) != want {
				t.Errorf("%s: %s is %q: %v", title, path, got, err)
			}
		}
	}
	if digests[0] != digests[1] {
		t.Errorf("the digests are %q", digests)
	}
}

// A version of many files is fetched by a few connections: a server takes only so many.
func TestDatasetIsFetchedByFewConnections(t *testing.T) {
	const most = 2
	t.Setenv(datasetAccessKey, testbucket.Account)
	t.Setenv(datasetSecretKey, "key")
	bucket, files := testbucket.Bucket{Name: "data", Objects: map[string][]byte{}}, []string{"--bucket=data"}
	for n := range 20 {
		name := fmt.Sprintf("part-%d.csv", n)
		bucket.Objects[name] = []byte(name)
		files = append(files, "--file="+sha256Of(name)+":0:"+name)
	}
	for title, flag := range map[string]string{"web": "--url=%s/data", "bucket": "--endpoint=%s"} {
		var made atomic.Int32
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if title == "web" {
				r.Header.Set("Authorization", "Credential="+testbucket.Account+"/")
			}
			bucket.ServeHTTP(w, r)
		}))
		server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				made.Add(1)
			}
		}
		server.Start()
		t.Cleanup(server.Close)
		if _, err := fetchDataset(t, t.TempDir(), append(files, fmt.Sprintf(flag, server.URL))...); err != nil {
			t.Fatalf("%s: %v", title, err)
		}
		if got := made.Load(); got > most {
			t.Errorf("%s: %d connections were made, want %d at most", title, got, most)
		}
	}
}

// A key that a Secret has with a newline at its end is told, since no storage says what is wrong with that.
func TestDatasetRefusesKeysWithWhiteSpace(t *testing.T) {
	for key, variable := range map[string]string{"accessKey": datasetAccessKey, "secretKey": datasetSecretKey} {
		t.Run(key, func(t *testing.T) {
			t.Setenv(datasetAccessKey, testbucket.Account)
			t.Setenv(datasetSecretKey, "key")
			t.Setenv(variable, "s3cret\n")
			_, err := fetchDataset(t, t.TempDir(), "--endpoint=http://127.0.0.1:1", "--bucket=data",
				"--file="+sha256Of("")+":0:a.csv")
			if exitCode(judged(err), nil) != transfer.ExitRefused || strings.Contains(err.Error(), "s3cret") ||
				!strings.Contains(err.Error(), `the key "`+key+`" of the Secret that credentialsSecretRef names`) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// How far a fetch is can be asked until it has ended; where nobody can ask, the version is fetched all the same.
func TestDatasetTellsHowFarItIs(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &datasetFetching{progress: listener.Addr().String()}
	f.tell(slog.New(slog.DiscardHandler))() // The address is taken.
	stop := f.answer(listener)
	ask := func(path string) (string, error) {
		response, err := http.Get("http://" + listener.Addr().String() + path)
		if err != nil {
			return "", err
		}
		defer func() { _ = response.Body.Close() }()
		said, err := io.ReadAll(response.Body)
		return response.Status + " " + string(said), err
	}
	if said, err := ask(transfer.Path); err != nil || !strings.Contains(said, `{"bytes":0,"files":0,"of":0}`) {
		t.Errorf("it says %q and %v", said, err)
	}
	if said, err := ask("/"); err != nil || !strings.HasPrefix(said, "404") {
		t.Errorf("elsewhere it says %q and %v", said, err)
	}
	stop()
	if said, err := ask(transfer.Path); err == nil {
		t.Errorf("after its end it says %q", said)
	}
}

// What a bucket does not have, or not for this account, is said with its name.
func TestDatasetIsNotFetchedFromABucket(t *testing.T) {
	endpoint := "--endpoint=" + testbucket.Bucket{Name: "data", Region: "us-east-1",
		Objects: map[string][]byte{"a.csv": []byte("1,2\n")}}.Serve(t)
	file := "--file=" + sha256Of("1,2\n") + ":0:a.csv"
	for title, c := range map[string]struct {
		account string
		args    []string
		want    string
	}{
		"no such object": {testbucket.Account, []string{endpoint, "--prefix=old/", file},
			`object "old/a.csv" of bucket "data"`},
		"another account":  {"other", []string{endpoint, file}, `object "a.csv" of bucket "data"`},
		"another digest":   {testbucket.Account, []string{endpoint, "--file=" + sha256Of("") + ":0:a.csv"}, "SHA-256 digest"},
		"too large":        {testbucket.Account, []string{endpoint, "--max-bytes=3", file}, "larger than its claim"},
		"no source":        {testbucket.Account, []string{file}, "one of --url and --endpoint"},
		"two sources":      {testbucket.Account, []string{endpoint, "--url=http://a", file}, "one of --url and --endpoint"},
		"no digest at all": {testbucket.Account, []string{endpoint, "--file=a.csv"}, "a.csv"},
	} {
		t.Run(title, func(t *testing.T) {
			t.Setenv(datasetAccessKey, c.account)
			t.Setenv(datasetSecretKey, "key")
			if _, err := fetchDataset(t, t.TempDir(), append(c.args, "--bucket=data")...); err == nil ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// Who is let in a moment later, such as by an object of the same manifests, has the version.
func TestDatasetWaitsAMomentUntilItIsLetIn(t *testing.T) {
	asked := 0
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked < 4 {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		_, _ = w.Write([]byte("1,2\n"))
	}))
	t.Cleanup(web.Close)
	if _, err := fetchDataset(t, t.TempDir(), "--url="+web.URL, "--file="+sha256Of("1,2\n")+":0:a.csv"); err != nil {
		t.Error(err)
	}
}

// What another pod would be told as well ends the pod soon, with a code of its own.
func TestDatasetThatIsRefusedEndsItsPodForGood(t *testing.T) {
	t.Setenv(datasetAccessKey, testbucket.Account)
	t.Setenv(datasetSecretKey, "key")
	bucket := slices.Clip([]string{"--bucket=data", "--endpoint=" + testbucket.Bucket{Name: "data", Region: "us-east-1",
		Objects: map[string][]byte{"a.csv": []byte("1,2\n")}}.Serve(t)})
	file := "--file=" + sha256Of("1,2\n") + ":0:a.csv"
	statuses := map[string]int{"/lost": http.StatusNotFound, "/secret": http.StatusForbidden,
		"/private": http.StatusUnauthorized, "/busy": http.StatusTooManyRequests, "/broken": http.StatusBadGateway}
	asked := map[string]int{}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked[path.Dir(r.URL.Path)]++
		w.WriteHeader(statuses[path.Dir(r.URL.Path)])
	}))
	t.Cleanup(web.Close)
	for title, c := range map[string]struct {
		args []string
		want int
	}{
		"no such object":     {append(bucket, "--prefix=old/", file), transfer.ExitRefused},
		"another digest":     {append(bucket, "--file="+sha256Of("")+":0:a.csv"), transfer.ExitRefused},
		"another size":       {append(bucket, "--file="+sha256Of("1,2\n")+":3:a.csv"), transfer.ExitRefused},
		"too large":          {append(bucket, "--max-bytes=3", file), transfer.ExitRefused},
		"no manifest":        {append(bucket, "--manifest="+sha256Of("1,2\n")+":0:a.csv"), transfer.ExitRefused},
		"not found":          {[]string{"--url=" + web.URL + "/lost", file}, transfer.ExitRefused},
		"forbidden":          {[]string{"--url=" + web.URL + "/secret", file}, transfer.ExitRefused},
		"unauthorized":       {[]string{"--url=" + web.URL + "/private", file}, transfer.ExitRefused},
		"too many requests":  {[]string{"--url=" + web.URL + "/busy", file}, 1},
		"bad gateway":        {[]string{"--url=" + web.URL + "/broken", file}, 1},
		"nobody listens":     {[]string{"--url=http://127.0.0.1:1", file}, 1},
		"no storage listens": {[]string{"--endpoint=http://127.0.0.1:1", "--bucket=data", file}, 1},
	} {
		t.Run(title, func(t *testing.T) {
			_, err := fetchDataset(t, t.TempDir(), c.args...)
			if got := exitCode(judged(err), nil); err == nil || got != c.want {
				t.Errorf("it ends with %d and %v, want %d", got, err, c.want)
			}
		})
	}
	for folder, want := range map[string]int{"/lost": 4, "/secret": 4, "/private": 4, "/busy": 6, "/broken": 6} {
		if asked[folder] != want {
			t.Errorf("%s was asked for %d times, want %d", folder, asked[folder], want)
		}
	}
}
