package archive

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"io"
)

// A sealed file is a header and chunks. Every chunk but the last has chunkSize bytes
// of text; each is encrypted by itself with AES-256-GCM, so that any part can be read
// without the rest. The nonce is the number of the chunk and whether it is the last:
// no two chunks of a key have the same, and none can be moved, left out or cut off.
var header = []byte("trl-past\x01\x00\x00\x00\x00\x00\x00\x00")

const (
	chunkSize = 64 << 10
	overhead  = 16 // of GCM, for each chunk
)

var errSeal = errors.New("is damaged")

// sealer encrypts a text in chunks.
type sealer struct {
	aead cipher.AEAD
	n    int64
	text []byte // of the incomplete chunk
	buf  []byte
}

func newSealer(key []byte) *sealer {
	return &sealer{aead: newAEAD(key)}
}

func newAEAD(key []byte) cipher.AEAD {
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // the key has the wrong length, which is checked before
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err) // the cipher is not AES
	}
	return aead
}

func nonce(n int64, last bool) []byte {
	var b [12]byte
	if last {
		b[0] = 1
	}
	binary.BigEndian.PutUint64(b[4:], uint64(n))
	return b[:]
}

// seal appends p to the text and writes the complete chunks. The last chunk is written by finish,
// because its nonce says that it is the last.
func (s *sealer) seal(p []byte, w io.Writer) error {
	for len(p) > 0 {
		if len(s.text) == chunkSize {
			if err := s.chunk(w, false); err != nil {
				return err
			}
		}
		n := min(len(p), chunkSize-len(s.text))
		s.text = append(s.text, p[:n]...)
		p = p[n:]
	}
	return nil
}

// finish writes the last chunk.
func (s *sealer) finish(w io.Writer) error { return s.chunk(w, true) }

func (s *sealer) chunk(w io.Writer, last bool) error {
	s.buf = s.aead.Seal(s.buf[:0], nonce(s.n, last), s.text, header)
	_, err := w.Write(s.buf)
	s.n++
	s.text = s.text[:0]
	return err
}

// textSize returns how many bytes of text a sealed file of that size has.
func textSize(size int64) (int64, error) {
	body := size - int64(len(header))
	chunks := (body + chunkSize + overhead - 1) / (chunkSize + overhead)
	if n := body - chunks*overhead; chunks > 0 && n >= 0 {
		return n, nil
	}
	return 0, errSeal
}

// unseal decrypts a part of a sealed file, which has total bytes of text.
func unseal(src io.ReaderAt, key []byte, total int64, p []byte, off int64) (n int, err error) {
	if off < 0 || off > total {
		return 0, errSeal
	}
	aead := newAEAD(key)
	buf := make([]byte, min(chunkSize, total)+overhead)
	last := max(total-1, 0) / chunkSize
	for n < len(p) && off < total {
		i := off / chunkSize
		sealed := buf[:min(chunkSize, total-i*chunkSize)+overhead]
		if _, err := src.ReadAt(sealed, int64(len(header))+i*(chunkSize+overhead)); err != nil && err != io.EOF {
			return n, err
		}
		text, err := aead.Open(sealed[:0], nonce(i, i == last), sealed, header)
		if err != nil {
			return n, errSeal
		}
		k := copy(p[n:], text[off-i*chunkSize:])
		n += k
		off += int64(k)
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}
