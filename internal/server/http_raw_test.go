package server_test

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/server"
)

// trl returns the headers of raw output, without their prefix.
func trl(h http.Header) string {
	var all []string
	for _, name := range []string{"Offset", "Next-Offset", "Total-Bytes", "State", "Complete", "Gap"} {
		all = append(all, h.Get("X-Trl-"+name))
	}
	return strings.Join(all, " ")
}

func TestHTTPRaw(t *testing.T) {
	w := startWeb(t, server.Config{}, server.HTTPConfig{})
	w.service.oldExec("x-1", "0123", "456789").exit()
	w.service.oldExec("x-2", "0123", "456789") // runs
	w.service.oldExec("x-3").exit()
	w.service.oldExec("x-4", "0123", "", "789").drop(4, 7).exit()
	w.service.oldExec("x-5", "0123456789").drop(4, 7).exit()
	w.service.oldExec("x-6", "0123456789").drop(0, 7)
	for _, c := range []struct {
		path, ranges string
		status       int
		body         string
		content      string // Content-Range
		headers      string // the headers of TRL
	}{
		{"x-1/stdout", "", 200, "0123456789", "", "0 10 10 closed true "},
		{"x-1/stdout?offset=4", "", 200, "456789", "", "4 10 10 closed true "},
		{"x-1/stdout?offset=10", "", 200, "", "", "10 10 10 closed true "},
		{"x-1/stdout?follow=0", "", 200, "0123456789", "", "0 10 10 closed true "},
		{"x-1/stderr", "", 200, "", "", "0 0 0 closed true "},
		{"x-2/stdout", "", 200, "0123456789", "", "0 10 10 running false "},
		{"x-3/stdout", "", 200, "", "", "0 0 0 closed true "},
		{"x-1/stdout", "bytes=2-5", 206, "2345", "bytes 2-5/10", "2 6 10 closed false "},
		{"x-1/stdout", "bytes=0-0", 206, "0", "bytes 0-0/10", "0 1 10 closed false "},
		{"x-1/stdout", "bytes=7-", 206, "789", "bytes 7-9/10", "7 10 10 closed true "},
		{"x-1/stdout", "Bytes = 7-999", 206, "789", "bytes 7-9/10", "7 10 10 closed true "},
		{"x-1/stdout", "bytes=-3", 206, "789", "bytes 7-9/10", "7 10 10 closed true "},
		{"x-1/stdout", "bytes=-99", 206, "0123456789", "bytes 0-9/10", "0 10 10 closed true "},
		{"x-2/stdout", "bytes=7-", 206, "789", "bytes 7-9/*", "7 10 10 running false "},
		{"x-1/stdout", "lines=1-2", 200, "0123456789", "", "0 10 10 closed true "},
		// Dropped output: the answer has the bytes before the gap, and the offset after it.
		{"x-5/stdout", "", 200, "0123", "", "0 7 10 closed false 4-7"},
		{"x-5/stdout?offset=7", "", 200, "789", "", "7 10 10 closed true "},
		{"x-5/stdout", "bytes=1-3", 206, "123", "bytes 1-3/10", "1 4 10 closed false "},
		{"x-5/stdout", "bytes=1-5", 206, "123", "bytes 1-3/10", "1 7 10 closed false 4-7"},
		{"x-5/stdout", "bytes=-3", 206, "789", "bytes 7-9/10", "7 10 10 closed true "},
		{"x-6/stdout?offset=7", "", 200, "789", "", "7 10 10 running false "},
	} {
		var header []string
		if c.ranges != "" {
			header = []string{"Range", c.ranges}
		}
		for _, verb := range []string{"GET", "HEAD"} {
			resp, text := w.do(verb, "/v1/exec/"+c.path, "", header...)
			name := fmt.Sprintf("%s %s %s", verb, c.path, c.ranges)
			if verb == "HEAD" && text == "" {
				text = c.body
			}
			if resp.StatusCode != c.status || text != c.body || resp.ContentLength != int64(len(c.body)) {
				t.Errorf("%s: %d %q, %d bytes, want %d %q", name, resp.StatusCode, text, resp.ContentLength, c.status, c.body)
			}
			if got := resp.Header.Get("Content-Range"); got != c.content {
				t.Errorf("%s: Content-Range %q, want %q", name, got, c.content)
			}
			if got := trl(resp.Header); got != c.headers {
				t.Errorf("%s: %q, want %q", name, got, c.headers)
			}
			if resp.Header.Get("Content-Type") != "application/octet-stream" || resp.Header.Get("X-Content-Type-Options") != "nosniff" ||
				resp.Header.Get("Cache-Control") != "no-store" || resp.Header.Get("Accept-Ranges") != "bytes" {
				t.Errorf("%s: %v", name, resp.Header)
			}
		}
	}
	// A condition that cannot hold leaves the whole.
	if resp, text := w.do("GET", "/v1/exec/x-1/stdout", "", "Range", "bytes=1-2", "If-Range", `"etag"`); resp.StatusCode != 200 || len(text) != 10 {
		t.Errorf("%d %q", resp.StatusCode, text)
	}
}

func TestHTTPRawRefused(t *testing.T) {
	w := startWeb(t, server.Config{}, server.HTTPConfig{})
	w.service.oldExec("x-1", "0123456789").exit()
	w.service.oldExec("x-5", "0123456789").drop(4, 7).exit()
	w.refused(404, api.CodeExecNotFound, "GET", "/v1/exec/x-0/stdout", "")
	w.refused(404, api.CodeExecNotFound, "HEAD", "/v1/exec/x-0/stdout", "")
	for _, query := range []string{"offset=-1", "offset=x", "offset=", "offset=1&offset=2", "follow=yes", "limit=5", "offset=99999999999999999999", "%zz"} {
		w.refused(400, api.CodeInvalidParams, "GET", "/v1/exec/x-1/stdout?"+query, "")
	}
	w.refused(400, api.CodeInvalidParams, "GET", "/v1/exec/x-1/stdout?offset=1", "", "Range", "bytes=1-2")
	w.refused(400, api.CodeInvalidParams, "GET", "/v1/exec/x-1/stdout?follow=1", "", "Range", "bytes=1-")
	for _, r := range []string{"bytes=10-", "bytes=10-20", "bytes=-0", "bytes=5-4", "bytes=a-b", "bytes=-", "bytes=", "bytes=1", "bytes=1-2,4-5", "bytes=+1-2", "bytes=0x1-",
		"bytes=99999999999999999999-", "bytes=1--2", "bytes=1-2-3"} {
		resp, _ := w.refused(416, api.CodeInvalidParams, "GET", "/v1/exec/x-1/stdout", "", "Range", r)
		if got := resp.Header.Get("Content-Range"); got != "bytes */10" {
			t.Errorf("%s: %q", r, got)
		}
	}
	w.refused(416, api.CodeInvalidParams, "GET", "/v1/exec/x-1/stdout?offset=11", "")
	w.refused(416, api.CodeInvalidParams, "GET", "/v1/exec/x-1/stdout?offset=11&follow=1", "")
	for _, c := range []struct{ path, ranges string }{{"?offset=4", ""}, {"?offset=6", ""}, {"", "bytes=5-8"}, {"", "bytes=-5"}, {"?offset=5&follow=1", ""}} {
		var header []string
		if c.ranges != "" {
			header = []string{"Range", c.ranges}
		}
		resp, e := w.refused(410, api.CodeInvalidParams, "GET", "/v1/exec/x-5/stdout"+c.path, "", header...)
		if resp.Header.Get("X-Trl-Next-Offset") != "7" || e.Details["next_offset"] != 7.0 || !strings.HasSuffix(e.Message, "continues at 7") {
			t.Errorf("%s: %v %+v", c.path, resp.Header, e)
		}
	}
	w.ping()
}

func TestHTTPRawFollowed(t *testing.T) {
	w := startWeb(t, server.Config{}, server.HTTPConfig{})
	e := w.service.oldExec("x-1", "old ")
	resp := w.send(w.request("GET", "/v1/exec/x-1/stdout?follow=1&offset=1", ""))
	if resp.StatusCode != 200 || len(resp.TransferEncoding) == 0 || resp.Header.Get("X-Trl-Offset") != "1" {
		t.Fatalf("%d %v", resp.StatusCode, resp.Header)
	}
	expect := func(want string) {
		t.Helper()
		got := make([]byte, len(want))
		if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != want {
			t.Fatalf("%q, %v; want %q", got, err, want)
		}
	}
	expect("ld ")
	for _, text := range []string{"a", "\xff\x00\n", strings.Repeat("b", 3<<20)} {
		e.write(text)
		expect(text)
	}
	e.write("last")
	e.exit()
	expect("last")
	if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) > 0 {
		t.Fatalf("%q, %v", rest, err)
	}
	if got := trl(resp.Trailer); got != fmt.Sprintf(" %d  closed true ", 12+3<<20) {
		t.Errorf("%q", got)
	}

	// A reader that is in a gap gets the offset of its end, and continues there.
	e = w.service.oldExec("x-2", "0123456789").drop(4, 7)
	resp = w.send(w.request("GET", "/v1/exec/x-2/stdout?follow=1", ""))
	if rest, err := io.ReadAll(resp.Body); err != nil || string(rest) != "0123" || trl(resp.Trailer) != " 7  running false 4-7" {
		t.Errorf("%q, %v, %q", rest, err, trl(resp.Trailer))
	}
	e.exit()
	resp = w.send(w.request("GET", "/v1/exec/x-2/stdout?follow=1&offset="+resp.Trailer.Get("X-Trl-Next-Offset"), ""))
	if rest, err := io.ReadAll(resp.Body); err != nil || string(rest) != "789" || trl(resp.Trailer) != " 10  closed true " {
		t.Errorf("%q, %v, %q", rest, err, trl(resp.Trailer))
	}
	resp = w.send(w.request("HEAD", "/v1/exec/x-2/stdout?follow=1", ""))
	if resp.StatusCode != 200 {
		t.Errorf("%d", resp.StatusCode)
	}
}

// TestHTTPRawIsExact: every byte, in one piece and in ranges.
func TestHTTPRawIsExact(t *testing.T) {
	w := startWeb(t, server.Config{}, server.HTTPConfig{})
	data := make([]byte, 5<<20+77)
	_, _ = rand.Read(data)
	w.service.oldExec("x-1", string(data)).exit()
	for _, path := range []string{"/v1/exec/x-1/stdout", "/v1/exec/x-1/stdout?follow=1"} {
		if _, text := w.do("GET", path, ""); !bytes.Equal([]byte(text), data) {
			t.Errorf("%s: %d bytes that differ", path, len(text))
		}
	}
	var joined []byte
	for at := 0; at < len(data); {
		resp, text := w.do("GET", "/v1/exec/x-1/stdout", "", "Range", fmt.Sprintf("bytes=%d-%d", at, at+1234567))
		if resp.StatusCode != 206 || text == "" {
			t.Fatalf("%d", resp.StatusCode)
		}
		joined = append(joined, text...)
		at += len(text)
	}
	if !bytes.Equal(joined, data) {
		t.Error("the ranges differ")
	}
}

// TestHTTPSlowButSteady: a client may take all the time it wants, as long as it takes
// something.
func TestHTTPSlowButSteady(t *testing.T) {
	inBubble(t, func(svc *service, conn net.Conn) {
		svc.oldExec("x-1", strings.Repeat("x", 32<<20)).exit()
		fmt.Fprint(conn, head("GET /v1/exec/x-1/stdout"))
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		n, buf := 0, make([]byte, 1<<20)
		for {
			m, err := io.ReadFull(resp.Body, buf)
			if n += m; err != nil {
				break
			}
			time.Sleep(server.DefaultWriteTimeout / 10) // 32 times: three times what the client has for one piece
		}
		if n != 32<<20 {
			t.Errorf("cut off after %d bytes", n)
		}
	})
}

// TestHTTPVerySlowButSteady: how little a client takes does not matter, only that it takes something.
func TestHTTPVerySlowButSteady(t *testing.T) {
	inBubble(t, func(svc *service, conn net.Conn) {
		const size = 256 << 10
		svc.oldExec("x-1", strings.Repeat("x", size)).exit()
		fmt.Fprint(conn, head("GET /v1/exec/x-1/stdout"))
		resp, err := http.ReadResponse(bufio.NewReaderSize(conn, 16), nil)
		if err != nil {
			t.Fatal(err)
		}
		n, buf := 0, make([]byte, 1<<10)
		for {
			m, err := io.ReadFull(resp.Body, buf)
			if n += m; err != nil {
				break
			}
			time.Sleep(server.DefaultWriteTimeout / 2)
		}
		if n != size {
			t.Errorf("cut off after %d bytes", n)
		}
	})
}

// TestHTTPRawThatVanishes: what cannot be kept as promised must not look complete.
func TestHTTPRawThatVanishes(t *testing.T) {
	w := startWeb(t, server.Config{}, server.HTTPConfig{})
	e := w.service.oldExec("x-1", strings.Repeat("x", 64<<20))
	resp := w.send(w.request("GET", "/v1/exec/x-1/stdout", ""))
	if _, err := io.ReadFull(resp.Body, make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	e.drop(50<<20, 60<<20)
	rest, err := io.Copy(io.Discard, resp.Body)
	if err == nil || 1<<20+rest > 50<<20 {
		t.Errorf("%d bytes, %v", rest, err)
	}
	resp = w.send(w.request("GET", "/v1/exec/x-1/stdout?follow=1&offset=62914560", ""))
	if _, err := io.ReadFull(resp.Body, make([]byte, 4<<20)); err != nil {
		t.Fatal(err)
	}
	w.service.forget("x-1")
	e.write("after this the reader is told that there is nothing")
	if _, err := io.Copy(io.Discard, resp.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("ended with %v", err)
	}
	w.ping()
}
