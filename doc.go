// Package trl holds the documents of TRL, which `trl docs` shows. Programs that use TRL import
// package client.
package trl
