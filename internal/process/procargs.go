package process

import "bytes"

// parseProcArgs splits the result of the sysctl kern.procargs2 of macOS: the number of arguments,
// the path of the program, padding, the arguments and the environment, each ended by a NUL. The
// file is compiled on all systems, so that the function is tested on all.
func parseProcArgs(raw []byte) (args, env []byte) {
	if len(raw) < 4 {
		return nil, nil
	}
	// Every machine that runs macOS is little-endian.
	argc := uint32(raw[0]) | uint32(raw[1])<<8 | uint32(raw[2])<<16 | uint32(raw[3])<<24
	rest := raw[4:]
	path := bytes.IndexByte(rest, 0)
	if path < 0 {
		return nil, nil
	}
	rest = bytes.TrimLeft(rest[path:], "\x00")
	end := 0
	for range argc {
		n := bytes.IndexByte(rest[end:], 0)
		if n < 0 {
			return rest, nil
		}
		end += n + 1
	}
	// An empty entry ends the environment; the rest is internal to macOS.
	env = rest[end:]
	if stop := bytes.Index(env, []byte{0, 0}); stop >= 0 {
		env = env[:stop+1]
	}
	return rest[:end], env
}
