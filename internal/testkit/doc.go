// Package testkit has the helpers that the tests of several packages share. It imports nothing of
// TRL, so that the tests of every package can import it; no package of the product does.
package testkit
