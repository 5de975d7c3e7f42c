// Package tracetest has a collector of spans for tests.
package tracetest
