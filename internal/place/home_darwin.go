package place

import (
	"os"
	"os/user"
	"strconv"
)

// databaseHome returns the home directory of this user in the user database, "" if it is not there.
func databaseHome() string {
	u, err := user.LookupId(strconv.Itoa(os.Getuid()))
	if err != nil {
		return ""
	}
	return u.HomeDir
}
