package vt

import (
	"bytes"
	"strconv"
	"strings"
)

const (
	maxTitles    = 10      // on the title stack; the oldest go
	maxTitle     = 1 << 16 // bytes; the rest is cut off
	maxDirectory = 4096    // bytes; a longer one is not believed
	maxURI       = 2083    // bytes of the target of a link; a longer one is no link
)

// osc acts on an operating system command: a number, a semicolon, and what it is about.
func (t *Terminal) osc(payload []byte) {
	digits := 0
	number := 0
	for digits < len(payload) && payload[digits]-'0' <= 9 {
		number = min(number*10+int(payload[digits]-'0'), 1<<20)
		digits++
	}
	if digits == 0 {
		return
	}
	text := payload[digits:]
	if len(text) > 0 {
		if text[0] != ';' {
			return
		}
		text = text[1:]
	}
	switch number {
	case 0:
		t.title = title(text)
		t.iconTitle = t.title
	case 1:
		t.iconTitle = title(text)
	case 2:
		t.title = title(text)
	case 4:
		t.paletteColors(text)
	case 7:
		t.setDirectory(string(text))
	case 8:
		t.setLink(text)
	case 10, 11, 12:
		t.specialColors(number, text)
	case 104:
		t.palette.reset(string(text))
	case 110, 111, 112:
		t.palette.special[number-110] = 0
	}
}

func title(text []byte) string {
	return string(bytes.ToValidUTF8(text[:min(len(text), maxTitle)], nil))
}

// window is XTWINOPS: the title stack, and questions about the size.
func (t *Terminal) window(p *params) {
	which := p.at(1)
	switch p.at(0) {
	case 22:
		if which == 0 || which == 2 {
			t.titles = pushTitle(t.titles, t.title)
		}
		if which == 0 || which == 1 {
			t.icons = pushTitle(t.icons, t.iconTitle)
		}
	case 23:
		if n := len(t.titles) - 1; n >= 0 && (which == 0 || which == 2) {
			t.title, t.titles = t.titles[n], t.titles[:n]
		}
		if n := len(t.icons) - 1; n >= 0 && (which == 0 || which == 1) {
			t.iconTitle, t.icons = t.icons[n], t.icons[:n]
		}
	default:
		t.reportWindow(p.at(0))
	}
}

func pushTitle(stack []string, title string) []string {
	if len(stack) == maxTitles {
		stack = append(stack[:0], stack[1:]...)
	}
	return append(stack, title)
}

// setDirectory is OSC 7: a file URL, of which the path is kept. What is not one says nothing.
func (t *Terminal) setDirectory(text string) {
	if text == "" {
		t.directory = ""
		return
	}
	rest, ok := strings.CutPrefix(text, "file://")
	slash := strings.IndexByte(rest, '/') // after the host
	if !ok || slash < 0 || len(rest)-slash > maxDirectory {
		return
	}
	if path, ok := unescape(rest[slash:]); ok {
		t.directory = path
	}
}

// percent is the inverse of unescape: it leaves what a path in an address may have as it is.
func percent(path string) string {
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		c := path[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("/-._~", c) >= 0 {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteByte("0123456789ABCDEF"[c>>4])
		b.WriteByte("0123456789ABCDEF"[c&15])
	}
	return b.String()
}

// unescape replaces %XX by the byte it stands for.
func unescape(s string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", false
		}
		v, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
		if err != nil || v == 0 {
			return "", false
		}
		b.WriteByte(byte(v))
		i += 2
	}
	return b.String(), true
}

// setLink is OSC 8: parameters, a semicolon, and the target. No target ends the link.
func (t *Terminal) setLink(text []byte) {
	parameters, target, ok := strings.Cut(string(text), ";")
	if !ok {
		return
	}
	defer func() {
		t.extended.update()
		t.setPen(t.pen)
	}()
	if target == "" || len(target) > maxURI {
		t.extended.link = nil
		return
	}
	id := ""
	for _, parameter := range strings.Split(parameters, ":") {
		if value, is := strings.CutPrefix(parameter, "id="); is && len(value) <= maxURI {
			id = value
		}
	}
	if l := t.extended.link; l == nil || l.uri != target || l.id != id {
		t.extended.link = &link{id: id, uri: target}
	}
}
