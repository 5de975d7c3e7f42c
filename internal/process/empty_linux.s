// A function without a body, as fork_linux.go has one, needs a file of assembly in its package.
