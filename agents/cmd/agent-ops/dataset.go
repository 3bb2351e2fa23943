// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/zeroinfra/agents/internal/datasetfile"
	"github.com/zeroinfra/agents/internal/modelfile"
	"github.com/zeroinfra/agents/internal/program"
	"github.com/zeroinfra/agents/internal/store"
	"github.com/zeroinfra/platform-core/agentproto/transfer"
)

// terminationLog is where a container says what became of it: outputs of a step, or why it failed.
const terminationLog = "/dev/termination-log"

// Variables with the account of a bucket, without which requests are not signed; with authorities in PEM that count
// beside those of the system; and with the bearer token, or the user and its password, that a web server is shown.
const (
	datasetAccessKey = "DATASET_ACCESS_KEY"
	datasetSecretKey = "DATASET_SECRET_KEY"
	datasetCA        = "DATASET_CA"
	datasetToken     = "DATASET_TOKEN"
	datasetUsername  = "DATASET_USERNAME"
	datasetPassword  = "DATASET_PASSWORD"
)

// datasetPause before a file is tried again.
const datasetPause = 2 * time.Second

// progressTimeout of whoever asks how far it is.
const progressTimeout = 5 * time.Second

// datasetCommand prepares the version of a dataset in the pod of a step.
func datasetCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "dataset", Short: "Prepare a version of a dataset on a volume"}
	cmd.AddCommand(datasetFetch(), datasetVerify(), datasetSeal())
	return cmd
}

// datasetFiles are the flags that say which files a version has.
type datasetFiles struct {
	files    []string
	manifest string
}

func (d *datasetFiles) add(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&d.files, "file", nil, "SHA256:SIZE:PATH of a file; the size is 0 where it is not known")
	cmd.Flags().StringVar(&d.manifest, "manifest", "",
		"SHA256:0:PATH of a file that names the files as sha256sum prints them, in place of --file")
}

// of is the manifest. open has one that the source keeps.
func (d *datasetFiles) of(open func(datasetfile.File) (datasetfile.Manifest, error)) (datasetfile.Manifest, error) {
	if d.manifest != "" {
		file, err := datasetfile.ParseFile(d.manifest)
		if err != nil {
			return nil, err
		}
		return open(file)
	}
	files := make([]datasetfile.File, 0, len(d.files))
	for _, text := range d.files {
		file, err := datasetfile.ParseFile(text)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return datasetfile.NewManifest(files)
}

// refused is why a version cannot be prepared as it is: the pod says so by transfer.ExitRefused.
type refused struct{ error }

// Unwrap returns the reason.
func (r refused) Unwrap() error { return r.error }

// prepared runs what prepares a version, and leaves word of how it ended.
func prepared(run func(ctx context.Context, log *slog.Logger) (datasetfile.Result, error)) error {
	program.Lean(memoryLimit)
	return program.Logged(os.Stdout, func(log *slog.Logger) error {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
		defer stop()
		result, err := run(ctx, log)
		said := fmt.Sprintf("digest=%s\nfiles=%d\nbytes=%d\n", result.Digest, result.Files, result.Bytes)
		if err != nil {
			said = err.Error()
		}
		return errors.Join(judged(err), os.WriteFile(terminationLog, []byte(said), 0o644))
	})
}

// judged is an error as it is, or a refused where another attempt would not help.
func judged(err error) error {
	if datasetfile.Lasting(err) {
		return refused{err}
	}
	return err
}

// datasetFetching is the flags of what fetches a version.
type datasetFetching struct {
	files        datasetFiles
	base, prefix string
	s3           modelfile.S3
	fetcher      datasetfile.Fetcher
	// progress is the address that says how far it is; empty for none.
	progress string
}

func datasetFetch() *cobra.Command {
	f := &datasetFetching{fetcher: datasetfile.Fetcher{Pause: datasetPause}}
	cmd := &cobra.Command{Use: "fetch", Short: "Fetch the files of a version over HTTP or from a bucket",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return prepared(f.run) }}
	f.add(cmd)
	return cmd
}

func (f *datasetFetching) add(cmd *cobra.Command) {
	f.files.add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.fetcher.Folder, "into", "/dataset", "volume that the files are brought to")
	flags.Int64Var(&f.fetcher.MaxBytes, "max-bytes", 1<<62, "bytes that the volume has room for")
	flags.StringVar(&f.progress, "progress", "", "address that is asked how far it is, such as :8080; none when empty")
	flags.StringVar(&f.base, "url", "", "http or https URL that the path of each file is added to")
	flags.StringVar(&f.s3.Endpoint, "endpoint", "", "URL of a storage that speaks S3")
	flags.StringVar(&f.s3.Region, "region", "", "region that requests are signed for")
	flags.StringVar(&f.s3.Bucket, "bucket", "", "bucket with the files")
	flags.StringVar(&f.prefix, "prefix", "", "what the names of the objects begin with, before the path")
}

// accountKey is a key of an account, from a variable that the key of a Secret fills in. One with white space around it,
// such as the newline that echo writes, is refused: a storage takes it for another account, or a request cannot hold
// it.
func accountKey(variable, key string) (string, error) {
	value := os.Getenv(variable)
	if strings.TrimSpace(value) != value {
		return "", store.Refused{Why: fmt.Sprintf("the value under the key %q of the Secret that credentialsSecretRef names "+
			"begins or ends with white space: create the Secret with the exact value, from a file that printf '%%s' has "+
			"written and not echo", key)}
	}
	return value, nil
}

// run fetches the version, with what the environment says of the source.
func (f *datasetFetching) run(ctx context.Context, log *slog.Logger) (datasetfile.Result, error) {
	if (f.base == "") == (f.s3.Endpoint == "") {
		return datasetfile.Result{}, errors.New("give one of --url and --endpoint")
	}
	var err error
	if f.s3.AccessKey, err = accountKey(datasetAccessKey, "accessKey"); err != nil {
		return datasetfile.Result{}, err
	}
	if f.s3.SecretKey, err = accountKey(datasetSecretKey, "secretKey"); err != nil {
		return datasetfile.Result{}, err
	}
	f.s3.CA = []byte(os.Getenv(datasetCA))
	web := modelfile.HTTP{URL: f.base, CA: f.s3.CA, Token: os.Getenv(datasetToken),
		Username: os.Getenv(datasetUsername), Password: os.Getenv(datasetPassword)}
	f.fetcher.Log = log
	defer f.tell(log)()
	source, err := f.source(web)
	if err != nil {
		return datasetfile.Result{}, err
	}
	f.fetcher.Source = source
	m, err := f.files.of(func(file datasetfile.File) (datasetfile.Manifest, error) {
		return f.fetcher.Manifest(ctx, file)
	})
	if err != nil {
		return datasetfile.Result{}, err
	}
	return f.fetcher.Fetch(ctx, m)
}

// tell answers whoever asks how far it is, until the function that it returns is called. A version is fetched without
// that as well.
func (f *datasetFetching) tell(log *slog.Logger) (stop func()) {
	if f.progress == "" {
		return func() {}
	}
	listener, err := net.Listen("tcp", f.progress)
	if err != nil {
		log.Warn("nobody can be told how far it is", "error", err.Error())
		return func() {}
	}
	return f.answer(listener)
}

// answer has whoever asks at a listener be told how far it is.
func (f *datasetFetching) answer(listener net.Listener) (stop func()) {
	mux := http.NewServeMux()
	mux.Handle("GET "+transfer.Path, &f.fetcher.Tracker)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: progressTimeout, WriteTimeout: progressTimeout}
	go func() { _ = server.Serve(listener) }()
	return func() { _ = server.Close() }
}

// source says where each file is. All of them are read by the same connections: a version may have a great many, and a
// server takes only so many connections.
func (f *datasetFetching) source(web modelfile.HTTP) (of func(path string) modelfile.Source, err error) {
	if web.URL == "" {
		s3, err := f.s3.Connected()
		return func(path string) modelfile.Source {
			s3.Key = f.prefix + path
			return s3
		}, err
	}
	web, err = web.Connected()
	base := strings.TrimSuffix(web.URL, "/")
	return func(path string) modelfile.Source {
		web.URL = base + "/" + (&url.URL{Path: path}).EscapedPath()
		return web
	}, err
}

func datasetVerify() *cobra.Command {
	var files datasetFiles
	var folder string
	cmd := &cobra.Command{Use: "verify", Short: "Read the files of a version that somebody else keeps",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return prepared(func(ctx context.Context, log *slog.Logger) (datasetfile.Result, error) {
				m, err := files.of(func(file datasetfile.File) (datasetfile.Manifest, error) {
					return datasetfile.Open(ctx, folder, file)
				})
				if err != nil {
					return datasetfile.Result{}, err
				}
				return datasetfile.Verify(ctx, folder, m, log)
			})
		}}
	files.add(cmd)
	cmd.Flags().StringVar(&folder, "from", "/dataset", "folder with the files")
	return cmd
}

func datasetSeal() *cobra.Command {
	var folder string
	var most int64
	cmd := &cobra.Command{Use: "seal", Short: "Write the manifest of the files that steps made", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return prepared(func(ctx context.Context, _ *slog.Logger) (datasetfile.Result, error) {
				return datasetfile.Seal(ctx, folder, most)
			})
		}}
	cmd.Flags().StringVar(&folder, "from", "/dataset", "volume with the files")
	cmd.Flags().Int64Var(&most, "max-bytes", 1<<62, "bytes that the version may have")
	return cmd
}
