// Package vt is the screen model of a terminal: it turns the bytes of a program into the screen that a person would see.
//
// It behaves as xterm.js 6.0 with the Unicode 11 widths does, its peculiarities included, because an xterm.js page shows the same bytes
// beside it and both have to agree on every cell. testdata/differences.md lists where it differs, and why.
package vt
