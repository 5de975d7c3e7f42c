package process

// ParseProcArgs is parseProcArgs, which only macOS calls.
var ParseProcArgs = parseProcArgs

// CommandText converts the bytes that CommandLine reads.
func CommandText(raw string) string { return commandText([]byte(raw)) }
