// Package web contains the built files of the console, the page that trl open shows. `make web`
// builds them from src; a test compares them with what it builds.
package web
