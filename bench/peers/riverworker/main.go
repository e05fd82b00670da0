// Riverworker stands in for fedpost under `fedpost bench --server`: River on PostgreSQL, with a
// job for each recipient, which signs and posts. The body and its digest are made once for an
// activity, and travel in each job.
package main

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// workers is how many jobs are under way at once, which River's documentation advises to set by
// measurement: with 250 to 1,000 a delivery took the same processor time, with 2,000 a tenth more.
const workers = 500

// job is one delivery.
type job struct {
	Inbox   string `json:"inbox"`
	KeyID   string `json:"keyId"`
	Content string `json:"content"`
	Digest  string `json:"digest"`
}

func (job) Kind() string { return "deliver" }

type worker struct {
	river.WorkerDefaults[job]
	client http.Client
	keys   *sync.Map // crypto.Signer by id
}

func (w *worker) Work(ctx context.Context, j *river.Job[job]) error {
	u, err := url.Parse(j.Args.Inbox)
	if err != nil {
		return err
	}
	key, ok := w.keys.Load(j.Args.KeyID)
	if !ok {
		return fmt.Errorf("no key %s", j.Args.KeyID)
	}
	date := time.Now().UTC().Format(http.TimeFormat)
	text := []byte(fmt.Sprintf("(request-target): post %s\nhost: %s\ndate: %s\ndigest: %s\ncontent-type: application/activity+json", u.Path, u.Host, date, j.Args.Digest))
	algorithm, options := "hs2019", crypto.SignerOpts(crypto.Hash(0))
	if _, ok := key.(*rsa.PrivateKey); ok {
		hash := sha256.Sum256(text)
		algorithm, options, text = "rsa-sha256", crypto.SHA256, hash[:]
	}
	signature, err := key.(crypto.Signer).Sign(rand.Reader, text, options)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, j.Args.Inbox, bytes.NewReader([]byte(j.Args.Content)))
	if err != nil {
		return err
	}
	r.Header.Set("Date", date)
	r.Header.Set("Digest", j.Args.Digest)
	r.Header.Set("Content-Type", "application/activity+json")
	r.Header.Set("Signature", fmt.Sprintf(`keyId="%s",algorithm="%s",headers="(request-target) host date digest content-type",signature="%s"`,
		j.Args.KeyID, algorithm, base64.StdEncoding.EncodeToString(signature)))
	resp, err := w.client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("answered %d", resp.StatusCode)
	}
	return nil
}

func generate(kind string) (private crypto.Signer, err error) {
	if kind == "rsa" {
		return rsa.GenerateKey(rand.Reader, 2048)
	}
	_, private, err = ed25519.GenerateKey(rand.Reader)
	return private, err
}

// face answers the calls of `fedpost bench`.
type face struct {
	queue    *river.Client[pgx.Tx]
	keys     *sync.Map
	accepted atomic.Int64
}

func (f *face) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	status, answer, err := f.do(r)
	if err != nil {
		log.Print(err)
		status, answer = http.StatusInternalServerError, map[string]any{"title": err.Error()}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		log.Print(err)
	}
}

func (f *face) do(r *http.Request) (int, map[string]any, error) {
	var in struct {
		ID, Type, KeyID string
		Activity        json.RawMessage
		Recipients      []string
	}
	if r.Method == http.MethodDelete {
		return http.StatusOK, map[string]any{}, nil
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		return 0, nil, err
	}
	if r.URL.Path == "/v1/keys" {
		key, err := generate(in.Type)
		if err != nil {
			return 0, nil, err
		}
		f.keys.Store(in.ID, key)
		public, err := x509.MarshalPKIXPublicKey(key.Public())
		return http.StatusCreated, map[string]any{"id": in.ID, "type": in.Type, "publicKeyPem": string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}))}, err
	}
	hash := sha256.Sum256(in.Activity)
	jobs := make([]river.InsertManyParams, len(in.Recipients))
	for i, inbox := range in.Recipients {
		jobs[i].Args = job{Inbox: inbox, KeyID: in.KeyID, Content: string(in.Activity), Digest: "SHA-256=" + base64.StdEncoding.EncodeToString(hash[:])}
	}
	var err error
	if len(jobs) == 1 {
		_, err = f.queue.Insert(r.Context(), jobs[0].Args, nil)
	} else {
		_, err = f.queue.InsertManyFast(r.Context(), jobs)
	}
	return http.StatusAccepted, map[string]any{"id": strconv.FormatInt(f.accepted.Add(1), 10), "status": "queued", "recipients": len(jobs)}, err
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	config, err := pgxpool.ParseConfig(os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	config.MaxConns = 20
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, nil)
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	keys := &sync.Map{}
	all := river.NewWorkers()
	river.AddWorker(all, &worker{keys: keys, client: http.Client{Transport: &http.Transport{MaxIdleConns: 1000, MaxIdleConnsPerHost: 8, MaxConnsPerHost: 8, IdleConnTimeout: 30 * time.Second}}})
	queue, err := river.NewClient(driver, &river.Config{
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: workers}}, Workers: all,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return err
	}
	if err := queue.Start(ctx); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: &face{queue: queue, keys: keys}}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	fmt.Printf("fedpost listening on http://%s\n", listener.Addr())
	if err := server.Serve(listener); err != http.ErrServerClosed {
		return err
	}
	return nil
}
