// Package ssh puts sessions on other machines with the user's own ssh program, as git does, so that
// ssh_config, agents, jump hosts, certificates and hardware keys work.
//
// For each destination the driver keeps one process of ssh, a ControlMaster, and opens sessions on it
// by its control socket (mux.go). The login shell of the other machine only starts /bin/sh, which
// reads its script from stdin (script.go); so neither its language nor the output of its startup
// files matters.
package ssh
