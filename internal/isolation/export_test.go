package isolation

// Profile returns the profile for sandbox-exec of a request, with these paths.
func Profile(r Request, writable, readable, hidden, readOnly []string) string {
	return profile(r, paths{writable: writable, readable: readable, hidden: hidden, readOnly: readOnly})
}
