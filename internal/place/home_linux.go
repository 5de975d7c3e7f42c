package place

import (
	"os"
	"strconv"
	"strings"
)

// databaseHome returns the home directory of this user in /etc/passwd, "" if it is not there. A
// program without cgo has no other database; see passwd(5).
func databaseHome() string {
	text, err := os.ReadFile("/etc/passwd")
	if err != nil {
		return ""
	}
	uid := strconv.Itoa(os.Getuid())
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) == 7 && fields[2] == uid && fields[0] != "" && !strings.ContainsRune("#+-", rune(fields[0][0])) {
			return fields[5]
		}
	}
	return ""
}
