package nofile

const prlimit64 = 302
