package archive

import "bytes"

// InMemory is inMemory.
func InMemory(dir string) bool { return inMemory(dir) }

var testKey = bytes.Repeat([]byte("k"), keySize)

// Seal returns text as a sealed file.
func Seal(text []byte) []byte {
	var b bytes.Buffer
	b.Write(header)
	s := newSealer(testKey)
	if s.seal(text, &b) != nil || s.finish(&b) != nil {
		return nil
	}
	return b.Bytes()
}

// Unseal reads what Seal returned.
func Unseal(sealed, p []byte, off int64) (int, error) {
	total, err := textSize(int64(len(sealed)))
	if err != nil {
		return 0, err
	}
	return unseal(bytes.NewReader(sealed), testKey, total, p, off)
}
