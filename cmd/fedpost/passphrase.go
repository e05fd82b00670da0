package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// leastPassphrase is how many characters a new passphrase has at least: the file that it
// protects may be copied, and be guessed at for years.
const leastPassphrase = 12

// mostPassphrase is how many bytes of a passphrase file are read.
const mostPassphrase = 4 << 10

// newPassphrase reads a passphrase for a file that is to be written.
func newPassphrase(ctx context.Context, file string) (string, error) {
	secret, err := passphrase(ctx, file, "Passphrase to encrypt the export with: ")
	if err != nil {
		return "", err
	}
	if n := len([]rune(secret)); n < leastPassphrase {
		return "", fmt.Errorf("the passphrase has %d characters: take %d or more, such as five random words", n, leastPassphrase)
	}
	if file == "" {
		again, err := passphrase(ctx, "", "The same once more: ")
		if err != nil {
			return "", err
		}
		if again != secret {
			return "", errors.New("the two passphrases differ: nothing was written")
		}
	}
	return secret, nil
}

// passphrase reads a passphrase from a file, without the line break at its end, or from the
// terminal, which does not show it.
func passphrase(ctx context.Context, file, prompt string) (string, error) {
	var text []byte
	var err error
	if file != "" {
		text, err = readPassphrase(file)
	} else {
		text, err = askTerminal(ctx, prompt)
	}
	if err != nil {
		return "", err
	}
	secret := strings.TrimRight(string(text), "\r\n")
	if secret == "" {
		return "", errors.New("the passphrase is empty")
	}
	return secret, nil
}

func readPassphrase(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read the passphrase: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, mostPassphrase+1))
	if err != nil {
		return nil, fmt.Errorf("read the passphrase: %w", err)
	}
	if len(text) > mostPassphrase {
		return nil, fmt.Errorf("%s has more than %d bytes: it is no passphrase", file, mostPassphrase)
	}
	return text, nil
}

// askTerminal asks on the terminal, and leaves it as it was, also if it is interrupted.
func askTerminal(ctx context.Context, prompt string) ([]byte, error) {
	fd := int(os.Stdin.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return nil, mistaken("there is no terminal to ask for the passphrase: give --passphrase-file")
	}
	fmt.Fprint(os.Stderr, prompt)
	type answer struct {
		text []byte
		err  error
	}
	answered := make(chan answer, 1)
	go func() {
		text, err := term.ReadPassword(fd)
		answered <- answer{text, err}
	}()
	select {
	case a := <-answered:
		fmt.Fprintln(os.Stderr)
		if a.err != nil {
			return nil, fmt.Errorf("read the passphrase: %w", a.err)
		}
		return a.text, nil
	case <-ctx.Done():
		fmt.Fprintln(os.Stderr)
		return nil, errors.Join(ctx.Err(), term.Restore(fd, before))
	}
}
