package ui

import (
	"bytes"
	"encoding/base64"
	"unicode/utf8"
)

// TextOrBase64 returns data as text for the API. It returns base64 instead if JSON cannot carry
// the data, would write each byte as six, or if the text is the word that keeps stdin open.
func TextOrBase64(data []byte) (text, b64 string) {
	if utf8.Valid(data) && bytes.IndexByte(data, 0) < 0 && string(data) != "open" {
		return string(data), ""
	}
	return "", base64.StdEncoding.EncodeToString(data)
}
