package output

import (
	"errors"
	"os"
)

// nameless is for systems that can make a file without a name; this one cannot.
func nameless(string) (*os.File, error) { return nil, errors.ErrUnsupported }
