package process

// ParseProcArgs is parseProcArgs, which only macOS calls.
var ParseProcArgs = parseProcArgs

// CommandText is what CommandLine does to the bytes it read.
func CommandText(raw string) string { return commandText([]byte(raw)) }
