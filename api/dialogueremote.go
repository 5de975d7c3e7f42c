package api

// DialogueRemote is another daemon, reached over gRPC. Secrets are read from files.
type DialogueRemote struct {
	Address    string `json:"address"`               // such as grpcs://box.example:7331
	TokenFile  string `json:"token_file,omitempty"`  // file with the token, on this machine
	CAFile     string `json:"ca_file,omitempty"`     // certificates to verify the daemon's certificate with
	CertFile   string `json:"cert_file,omitempty"`   // certificate to present to the daemon
	KeyFile    string `json:"key_file,omitempty"`    // private key of cert_file
	ServerName string `json:"server_name,omitempty"` // name in the daemon's certificate, if it differs from the address
}

// Options returns the options of the place of kind trl that the daemon is.
func (r DialogueRemote) Options() PlaceOptions {
	return PlaceOptions{
		Address: r.Address, TokenFile: r.TokenFile, CAFile: r.CAFile, CertFile: r.CertFile, KeyFile: r.KeyFile, ServerName: r.ServerName,
	}
}
