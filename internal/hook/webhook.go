package hook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/version"
)

const (
	// attempts is how often a report is posted at most.
	attempts = 6
	// maxAnswer is how much of an answer is read, so that its connection can be used again.
	maxAnswer = 64 << 10
)

// webhook posts reports, signed as the Standard Webhooks specification says, so that receivers can
// verify them with a library.
type webhook struct {
	cfg    Config
	client *http.Client
}

func newWebhook(c Config) *webhook {
	return &webhook{c, &http.Client{
		Timeout:   c.Timeout,
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true},
		// Another server must not get the report.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// final is an error after which another attempt is useless.
type final struct{ error }

// deliver posts a report until the receiver has it, the request is answered, or there were too many
// attempts.
func (w *webhook) deliver(ctx context.Context, r api.RequestReport) error {
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	pause := w.cfg.Pause
	for attempt := 1; ; attempt++ {
		err := w.post(ctx, r.ID, body)
		var last final
		if err == nil || errors.As(err, &last) {
			return err
		}
		if attempt == attempts {
			return fmt.Errorf("%w; gave up after %d attempts", err, attempts)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		if !w.cfg.Waits(r) {
			return nil
		}
		pause *= 2
	}
}

// post makes one attempt.
func (w *webhook) post(ctx context.Context, id string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.cfg.URL, bytes.NewReader(body))
	if err != nil {
		return final{errors.New("on_request_url: is not a URL")}
	}
	at := strconv.FormatInt(time.Now().Unix(), 10)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "trl/"+version.Version)
	req.Header.Set("Webhook-Id", id)
	req.Header.Set("Webhook-Timestamp", at)
	req.Header.Set("Webhook-Signature", Sign(w.cfg.Key, id, at, body))
	res, err := w.client.Do(req)
	if err != nil {
		var full *url.Error
		if errors.As(err, &full) { // its text has the URL, which may have a secret
			err = full.Err
		}
		return fmt.Errorf("on_request_url: %s: %w", req.URL.Host, err)
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxAnswer))
	answer := fmt.Errorf("on_request_url: %s: answered with status %d", req.URL.Host, res.StatusCode)
	switch s := res.StatusCode; {
	case s >= 200 && s < 300:
		return nil
	case s >= 300 && s < 400:
		return final{fmt.Errorf("%w, a redirect, which TRL does not follow; set the URL to its destination", answer)}
	case s == http.StatusRequestTimeout || s == http.StatusTooManyRequests || s >= 500:
		return answer
	}
	return final{answer}
}

// Sign returns the header Webhook-Signature: an HMAC of the id, the time and the body.
func Sign(key []byte, id, at string, body []byte) string {
	m := hmac.New(sha256.New, key)
	fmt.Fprintf(m, "%s.%s.%s", id, at, body)
	return "v1," + base64.StdEncoding.EncodeToString(m.Sum(nil))
}
