package server

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Scope says which methods a token allows.
type Scope string

// The scopes. Full may do everything but the methods with AccessLocal; read may call the methods
// that change nothing.
const (
	ScopeRead Scope = "read"
	ScopeFull Scope = "full"
	// scopeLocal is that of the daemon's own user, on the socket or on stdio. No token has it.
	scopeLocal Scope = "local"
)

// covers reports whether scope s is enough where need is asked for.
func (s Scope) covers(need Scope) bool {
	return s == need || s == scopeLocal || s == ScopeFull && need == ScopeRead
}

// Bounds of the length of a token, so that it cannot be guessed.
const (
	minToken = 16
	maxToken = 512
	// maxTokenFile bounds what is read of the file.
	maxTokenFile = 1 << 20
)

// secret is a stored token: only its digest, so that a comparison takes the same time for
// every token.
type secret struct {
	digest [sha256.Size]byte
	scope  Scope
}

// Tokens are the valid tokens and their scopes. The file is read again when it has changed; while it
// cannot be read, no caller can use its tokens. Tokens is safe for concurrent use.
type Tokens struct {
	given []secret
	path  string // "" for no file
	log   *slog.Logger

	mu    sync.Mutex
	stamp stamp                  // guarded by mu; of the file as it was read
	file  []secret               // guarded by mu; empty while the file cannot be read
	last  []secret               // guarded by mu; of the file when it could last be read; empty for a missing file
	uses  map[*tokenUse]struct{} // guarded by mu
	timer *time.Timer            // guarded by mu; calls endUses; nil without uses
	look  time.Duration          // how often it does
}

// TokensConfig says where tokens come from.
type TokensConfig struct {
	// Token, when it is not empty, is one of scope full.
	Token string
	// File holds tokens, a line each: "full TOKEN", "read TOKEN" or "TOKEN", which is
	// full; what begins with # is a comment. Empty for no file.
	File string
	// Make makes the file with one new token when there is none.
	Make bool
	// Logger gets why a file that has changed cannot be used.
	Logger *slog.Logger
	// Look replaces the time between two looks at the tokens of open connections; 0 for the usual one.
	Look time.Duration
}

// NewTokens reads the tokens. There must be at least one.
func NewTokens(c TokensConfig) (*Tokens, error) {
	t := &Tokens{path: c.File, log: c.Logger, uses: map[*tokenUse]struct{}{}, look: cmp.Or(c.Look, tokenLook)}
	if t.log == nil {
		t.log = slog.New(slog.DiscardHandler)
	}
	if c.Token != "" {
		s, err := newSecret(c.Token, ScopeFull)
		if err != nil {
			return nil, fmt.Errorf("token: %w", err)
		}
		t.given = append(t.given, s)
	}
	if t.path != "" {
		if c.Make {
			if err := makeTokenFile(t.path); err != nil {
				return nil, fmt.Errorf("token file: %w", err)
			}
		}
		var err error
		if t.file, t.stamp, err = readTokenFile(t.path); err != nil {
			return nil, err
		}
		t.last = t.file
	}
	if len(t.given)+len(t.file) == 0 {
		return nil, errors.New("no token configured: no client could call")
	}
	return t, nil
}

func newSecret(token string, scope Scope) (secret, error) {
	switch {
	case len(token) < minToken || len(token) > maxToken:
		return secret{}, fmt.Errorf("has %d characters, must have %d to %d", len(token), minToken, maxToken)
	// The characters that RFC 6750 allows after "Bearer".
	case strings.Trim(token, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/=") != "":
		return secret{}, errors.New("may have only letters, digits and - . _ ~ + / =")
	}
	return secret{sha256.Sum256([]byte(token)), scope}, nil
}

// scopeOf returns what a token is good for, "" for nothing. It takes the same time for
// every wrong token.
func (t *Tokens) scopeOf(token string) Scope {
	digest := sha256.Sum256([]byte(token))
	return scopeIn(hex.EncodeToString(digest[:]), t.given, t.current())
}

// tokenNameLength is the length of the name of a token.
const tokenNameLength = 12

// tokenName identifies a token in records, without being useful as one.
func tokenName(token string) string {
	digest := sha256.Sum256([]byte(token))
	return hex.EncodeToString(digest[:])[:tokenNameLength]
}

// Find returns the scope of a token and its digest, by which Holds finds it again; "" for a wrong one.
func (t *Tokens) Find(token string) (Scope, string) {
	scope := t.scopeOf(token)
	if scope == "" {
		return "", ""
	}
	digest := sha256.Sum256([]byte(token))
	return scope, hex.EncodeToString(digest[:])
}

// Holds reports whether the token with this digest, or whose digest begins so, has not been removed.
// It still holds the tokens of a file that cannot be read now, such as one that an editor is writing:
// logins and shares end for good, and so only with a token that is really gone.
func (t *Tokens) Holds(digest string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.currentLocked()
	return scopeIn(digest, t.given, t.last) != ""
}

// scopeIn returns what the token with this digest is good for, "" for nothing. The name of a token,
// which is the beginning of its digest, is enough.
func scopeIn(digest string, lists ...[]secret) (best Scope) {
	if len(digest) < tokenNameLength || len(digest) > 2*sha256.Size {
		return ""
	}
	for _, list := range lists {
		for _, s := range list {
			if subtle.ConstantTimeCompare([]byte(digest), []byte(hex.EncodeToString(s.digest[:])[:len(digest)])) == 1 && best != ScopeFull {
				best = s.scope
			}
		}
	}
	return best
}

// current returns the tokens of the file as it is now.
func (t *Tokens) current() []secret {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.currentLocked()
}

func (t *Tokens) currentLocked() []secret {
	if t.path == "" {
		return nil
	}
	if stampOf(t.path) == t.stamp {
		return t.file
	}
	list, now, err := readTokenFile(t.path)
	switch {
	case err != nil && t.stamp != now:
		t.log.Error("tokens of the file are no longer valid", "error", err)
	case err == nil:
		t.log.Info("token file has changed", "path", t.path, "tokens", len(list))
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		t.last = list
	}
	t.file, t.stamp = list, now
	return list
}

// stamp identifies a state of a file. The zero value stands for a missing file.
type stamp struct {
	inode   uint64
	size    int64
	changed syscall.Timespec
}

func stampOf(path string) stamp {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{}
	}
	return stampOfInfo(info)
}

// readTokenFile reads a file, which other users must not be able to read. The stamp is valid
// even if the contents are not.
func readTokenFile(path string) ([]secret, stamp, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, stamp{}, fmt.Errorf("token file: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, stamp{}, fmt.Errorf("token file: %w", err)
	}
	at := stampOfInfo(info)
	if !info.Mode().IsRegular() {
		return nil, at, fmt.Errorf("token file %s: is not a regular file", path)
	}
	if owner := int(info.Sys().(*syscall.Stat_t).Uid); owner != os.Geteuid() && owner != 0 {
		return nil, at, fmt.Errorf("token file %s: belongs to uid %d, not to %d", path, owner, os.Geteuid())
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, at, fmt.Errorf("token file %s: others may read or write it (mode %04o); chmod 600 it", path, mode)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxTokenFile+1))
	switch {
	case err != nil:
		return nil, at, fmt.Errorf("token file: %w", err)
	case len(text) > maxTokenFile:
		return nil, at, fmt.Errorf("token file %s: has more than %d bytes", path, maxTokenFile)
	}
	list, err := parseTokens(text)
	if err == nil && len(list) == 0 {
		err = errors.New("has no token")
	}
	if err != nil {
		return nil, at, fmt.Errorf("token file %s: %w", path, err)
	}
	return list, at, nil
}

// parseTokens reads lines of tokens. An error names the line and nothing of what is in it.
func parseTokens(text []byte) ([]secret, error) {
	var list []secret
	for n, line := range bytes.Split(text, []byte("\n")) {
		words := strings.Fields(string(line))
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		scope := ScopeFull
		if len(words) == 2 {
			scope, words = Scope(words[0]), words[1:]
		}
		if len(words) != 1 || scope != ScopeFull && scope != ScopeRead {
			return nil, fmt.Errorf("line %d: must be %q, %q or a token alone", n+1, "full TOKEN", "read TOKEN")
		}
		s, err := newSecret(words[0], scope)
		if err != nil {
			return nil, fmt.Errorf("line %d: the token %w", n+1, err)
		}
		list = append(list, s)
	}
	return list, nil
}

// makeTokenFile makes a file with a new token, unless the path exists. A reader finds the whole
// file or none.
func makeTokenFile(path string) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	var random [32]byte
	_, _ = rand.Read(random[:])                              // never fails
	tmp, err := os.CreateTemp(filepath.Dir(path), ".token-") // with mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.WriteString(base64.RawURLEncoding.EncodeToString(random[:]) + "\n")
	if err = errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	if err := unix.Link(tmp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return &fs.PathError{Op: "make", Path: path, Err: err}
	}
	return nil
}
