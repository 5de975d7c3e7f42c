package cli

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"rsc.io/qr"

	"github.com/trl-dev/trl/internal/cli/ui"
)

// quietZone is the number of light modules around a QR code, as its standard demands.
const quietZone = 4

// qrLines draws text as a QR code, two rows of modules in a line. The colours are part of the
// lines, so that the code is dark on light in every terminal; without colours a block is dark.
func qrLines(text string, colour bool) ([]string, error) {
	code, err := qr.Encode(text, qr.L)
	if err != nil {
		return nil, err
	}
	var lines []string
	for y := -quietZone; y < code.Size+quietZone; y += 2 {
		var b strings.Builder
		for x := -quietZone; x < code.Size+quietZone; x++ {
			above, below := code.Black(x, y), code.Black(x, y+1)
			switch {
			case above && below:
				b.WriteRune('█')
			case above:
				b.WriteRune('▀')
			case below:
				b.WriteRune('▄')
			default:
				b.WriteByte(' ')
			}
		}
		if colour {
			lines = append(lines, "\x1b[38;5;16;48;5;231m"+b.String()+"\x1b[0m")
		} else {
			lines = append(lines, b.String())
		}
	}
	return lines, nil
}

const phoneHint = "set http to an address of the network, and tls_cert and tls_key; `trl config` lists the settings"

// phoneHost returns the host and port at which a phone reaches a daemon that serves HTTP at base, or
// an error that says why it cannot. own finds the address of this machine.
func phoneHost(base string, own func() (string, error)) (string, error) {
	if base == "" {
		return "", ui.WithHint(errors.New("a phone cannot open the console: HTTP is off, and trl open turns it on for this machine alone"), phoneHint)
	}
	u, err := url.Parse(base)
	if err != nil {
		return "", err
	}
	ip := net.ParseIP(u.Hostname())
	switch {
	case u.Hostname() == "localhost" || ip != nil && ip.IsLoopback():
		return "", ui.WithHint(fmt.Errorf("a phone cannot open the console: the daemon serves HTTP on %s, which is this machine alone", u.Host), phoneHint)
	case ip != nil && ip.IsUnspecified():
		address, err := own()
		return net.JoinHostPort(address, u.Port()), err
	}
	return u.Host, nil
}

// ownAddress returns the address of this machine on the network of its default route.
func ownAddress() (string, error) {
	// No packet is sent: connecting a datagram socket only chooses its address.
	c, err := net.Dial("udp", "192.0.2.1:9")
	if err != nil {
		return "", ui.WithHint(errors.New("this machine has no network that a phone could share"), "give http an address of the network instead of all of them")
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).IP.String(), nil
}
