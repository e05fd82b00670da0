package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"fedpost/internal/app"
	"fedpost/internal/app/config"
	"fedpost/internal/app/lambda"
	"fedpost/internal/app/lambda/sqsevent"
	"fedpost/internal/app/local"
	"fedpost/internal/app/topology"
	"fedpost/internal/engine/queue"
	"fedpost/internal/engine/sqlite"
)

// fedpost is a running server and what has to be closed after it.
type fedpost struct {
	server *local.Server
	close  func() error
}

// start runs everything in one process: on AWS's services if an endpoint of
// theirs is named, else on the embedded engine in dir. change adapts the
// settings that were read from the environment.
func start(ctx context.Context, dir, listen string, allowPrivate bool, change func(*settings), log *slog.Logger) (*fedpost, error) {
	var s settings
	if err := config.Load(&s.Local); err != nil {
		return nil, err
	}
	s.every = topology.HealthCheckEvery
	if change != nil {
		change(&s)
	}
	if os.Getenv("AWS_ENDPOINT_URL") != "" {
		return s.onAWS(listen, allowPrivate, log)
	}
	return s.embedded(ctx, dir, listen, allowPrivate, log)
}

func (s settings) onAWS(listen string, allowPrivate bool, log *slog.Logger) (*fedpost, error) {
	var c config.AWS
	if err := config.Load(&c); err != nil {
		return nil, err
	}
	ports, err := lambda.Local(c, log)
	if err != nil {
		return nil, err
	}
	ports.AllowPrivate, ports.Tally = allowPrivate, ports.NewTally()
	server, err := s.serve(ports, listen, ports.Tally.Settle)
	if err != nil {
		return nil, err
	}
	return &fedpost{server, settled(ports, func() error { return nil })}, nil
}

func (s settings) embedded(ctx context.Context, dir, listen string, allowPrivate bool, log *slog.Logger) (*fedpost, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	engine, err := sqlite.Open(ctx, filepath.Join(dir, "fedpost.db"), sqlite.Options{Queues: queues()})
	if err != nil {
		return nil, err
	}
	ports := app.Ports{
		Table: engine.Table(), Queue: engine.Queue, AllowPrivate: allowPrivate,
		Alone: rand.Text()[:8], Log: log,
	}
	if err := ports.SealIn(ctx, filepath.Join(dir, "sealing.key")); err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	if err := engine.Recall(ctx); err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	ports.Tally = ports.NewTally()
	sweep := func(ctx context.Context) error { return errors.Join(engine.Sweep(ctx), ports.Tally.Settle(ctx)) }
	server, err := s.serve(ports, listen, sweep)
	if err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	return &fedpost{server, settled(ports, engine.Close)}, nil
}

// settleTime is how long writing the last counts may take at a stop.
const settleTime = 5 * time.Second

// settled returns a function that writes the counts of the process and then calls
// closing.
func settled(p app.Ports, closing func() error) func() error {
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), settleTime)
		defer cancel()
		return errors.Join(p.Tally.Settle(ctx), closing())
	}
}

// settings are the settings of the environment, and the period of the scheduled
// function, which the demo shortens.
type settings struct {
	config.Local
	every time.Duration
}

func (s settings) serve(ports app.Ports, listen string, sweep func(context.Context) error) (*local.Server, error) {
	ports.PerQueue, ports.Retrying, ports.Keys = local.PerQueue, local.Retrying, ports.NewRing()
	api, err := app.API(s.Enqueue(), s.Access.Token, ports)
	if err != nil {
		return nil, err
	}
	deliver, err := app.Deliver(s.Deliver(), ports)
	if err != nil {
		return nil, err
	}
	health, err := app.HealthCheck(s.HealthCheck(), ports)
	if err != nil {
		return nil, err
	}
	handler := sqsevent.Handler{Worker: deliver, Sources: local.Sources()}
	return local.Start(local.Options{
		Listen: listen, Token: s.Access.Token, Queue: ports.Queue, Sweep: sweep,
		Services: local.Services{API: api, Deliver: handler.Handle, HealthCheck: health.Run},
		Timeout:  topology.Deliver.Timeout, Every: s.every, Log: ports.Log,
	})
}

// stop ends the server within a time and closes what is below it.
func (f *fedpost) stop(cause error, within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	return errors.Join(cause, f.server.Stop(ctx), f.close())
}

// queues gives the embedded engine's queues the settings they have on AWS.
func queues() map[queue.Name]sqlite.QueueConfig {
	m := make(map[queue.Name]sqlite.QueueConfig, len(queue.Names))
	for _, n := range queue.Names {
		t := topology.Of(n)
		m[n] = sqlite.QueueConfig{Visibility: t.Visibility, MaxReceives: t.MaxReceives, Retention: t.Retention}
	}
	return m
}
