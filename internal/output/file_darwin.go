package output

import (
	"errors"
	"os"
)

// nameless returns an error: macOS cannot make a file without a name.
func nameless(string) (*os.File, error) { return nil, errors.ErrUnsupported }
