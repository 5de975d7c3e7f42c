package nofile

const prlimit64 = 261
