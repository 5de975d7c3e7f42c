// Package api is the contract of TRL: the Service interface, the method table,
// parameters, results, events and errors. The daemon and the Go client implement
// Service, and every transport is built from Methods.
//
// It imports the standard library and one small package of this module, so that any package
// may import it.
package api
