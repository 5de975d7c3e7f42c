package cli

import "testing"

// A link leads to the host at which this trl reaches the daemon, not to the daemon's own address.
func TestReachable(t *testing.T) {
	const own = "http://127.0.0.1:7330/#/login/c-0123?to=/s/s-81d0b7e6f4"
	for at, want := range map[string]string{
		"":                            own,
		"grpc://box.example:7331":     own,
		"https://box.example":         "https://box.example/#/login/c-0123?to=/s/s-81d0b7e6f4",
		"http://127.0.0.1:9999":       "http://127.0.0.1:9999/#/login/c-0123?to=/s/s-81d0b7e6f4",
		"https://box.example:8443/x/": "https://box.example:8443/#/login/c-0123?to=/s/s-81d0b7e6f4",
	} {
		if got := (&app{url: at}).reachable(own); got != want {
			t.Errorf("%q: %s, want %s", at, got, want)
		}
	}
}

// Two different letters are most of a short word, so a short word has no similar one.
func TestSimilar(t *testing.T) {
	for word, want := range map[string]string{"rm": "", "x": "", "sl": "ls", "revok": "revoke", "rvoek": "revoke", "": ""} {
		if got := similar(word, []string{"ls", "revoke"}); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}
