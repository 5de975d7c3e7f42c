// A function without a body, as nofile_linux.go has one, needs a file of assembly in its package.
