package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Server is a fedpost of the measurement's own: a process with a fresh data folder.
type Server struct {
	URL string
	PID int

	command *exec.Cmd
	dir     string
	log     *tail
}

const startTime = 30 * time.Second

// StartServer starts `command up` in a directory of its own; with DATABASE_URL, in a schema of its
// own, which stays. The server trusts ca, if that is not nil.
func StartServer(ctx context.Context, command string, ca []byte, flags []string) (*Server, error) {
	dir, err := os.MkdirTemp("", "fedpost-bench-")
	if err != nil {
		return nil, fmt.Errorf("directory of the measurement: %w", err)
	}
	s := &Server{dir: dir, log: &tail{}}
	if err := s.start(ctx, command, ca, flags); err != nil {
		return nil, errors.Join(fmt.Errorf("start the server to be measured: %w", err), s.log.err(), s.Stop())
	}
	return s, nil
}

func (s *Server) start(ctx context.Context, command string, ca []byte, flags []string) error {
	arguments := append([]string{"up", "--listen", "127.0.0.1:0", "--data", filepath.Join(s.dir, "data"), "--allow-private"}, flags...)
	s.command = exec.CommandContext(ctx, command, arguments...)
	s.command.Env = os.Environ()
	if os.Getenv("DATABASE_URL") != "" {
		// A server with a data folder of its own has another sealing key than those before it.
		s.command.Env = append(s.command.Env, "DATABASE_SCHEMA="+strings.ReplaceAll(filepath.Base(s.dir), "-", "_"))
	}
	if ca != nil {
		file := filepath.Join(s.dir, "ca.pem")
		if err := os.WriteFile(file, ca, 0o600); err != nil {
			return err
		}
		// crypto/x509 reads this variable on all systems but macOS and Windows.
		s.command.Env = append(s.command.Env, "SSL_CERT_FILE="+file)
	}
	s.command.Stderr = s.log
	out, err := s.command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.command.Start(); err != nil {
		return err
	}
	s.PID = s.command.Process.Pid
	late := time.AfterFunc(startTime, func() { _ = s.command.Process.Kill() })
	defer late.Stop()
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if url, ok := strings.CutPrefix(lines.Text(), "fedpost listening on "); ok {
			s.URL = strings.TrimSpace(url)
			go func() { _, _ = io.Copy(io.Discard, out) }() // until the process ends
			return nil
		}
	}
	return errors.New("it ended, or took too long, before it listened")
}

const stopTime = 5 * time.Second

// Stop ends the process and removes its directory: nothing in it is worth keeping.
func (s *Server) Stop() error {
	if s.command != nil && s.command.Process != nil {
		late := time.AfterFunc(stopTime, func() { _ = s.command.Process.Kill() })
		_ = s.command.Process.Signal(os.Interrupt)
		_ = s.command.Wait() // says how it ended
		late.Stop()
	}
	return os.RemoveAll(s.dir)
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const longestTail = 2 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-longestTail):]
	return len(p), nil
}

func (t *tail) err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.text) == 0 {
		return nil
	}
	return fmt.Errorf("its log ends with: %s", t.text)
}
