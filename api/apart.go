package api

import (
	"bytes"
	"encoding/json"
)

// Package encoding/json prepares the encoder of every type that the first value of a type can reach.
// The types below are large or seldom used, and session.create, session.info, session.list and exec.run
// reach them. They marshal themselves, so that a runner and a trl process prepare them only if they occur.

// MarshalJSON implements json.Marshaler.
func (o PlaceOptions) MarshalJSON() ([]byte, error) {
	type plain PlaceOptions
	return marshalApart(plain(o))
}

// MarshalJSON implements json.Marshaler.
func (l Limits) MarshalJSON() ([]byte, error) {
	type plain Limits
	return marshalApart(plain(l))
}

// MarshalJSON implements json.Marshaler.
func (i Isolation) MarshalJSON() ([]byte, error) {
	type plain Isolation
	return marshalApart(plain(i))
}

// MarshalJSON implements json.Marshaler.
func (l SessionLimits) MarshalJSON() ([]byte, error) {
	type plain SessionLimits
	return marshalApart(plain(l))
}

// MarshalJSON implements json.Marshaler.
func (i SessionIsolation) MarshalJSON() ([]byte, error) {
	type plain SessionIsolation
	return marshalApart(plain(i))
}

// MarshalJSON implements json.Marshaler.
func (t TerminalInfo) MarshalJSON() ([]byte, error) {
	type plain TerminalInfo
	return marshalApart(plain(t))
}

// MarshalJSON implements json.Marshaler.
func (l EnforcedLimit) MarshalJSON() ([]byte, error) {
	type plain EnforcedLimit
	return marshalApart(plain(l))
}

// MarshalJSON implements json.Marshaler.
func (l UnenforcedLimit) MarshalJSON() ([]byte, error) {
	type plain UnenforcedLimit
	return marshalApart(plain(l))
}

// MarshalJSON implements json.Marshaler.
func (l CommandLimits) MarshalJSON() ([]byte, error) {
	type plain CommandLimits
	return marshalApart(plain(l))
}

// MarshalJSON implements json.Marshaler.
func (k OOMKill) MarshalJSON() ([]byte, error) {
	type plain OOMKill
	return marshalApart(plain(k))
}

// MarshalJSON implements json.Marshaler.
func (p KilledProcess) MarshalJSON() ([]byte, error) {
	type plain KilledProcess
	return marshalApart(plain(p))
}

// MarshalJSON implements json.Marshaler.
func (s PTYSize) MarshalJSON() ([]byte, error) {
	type plain PTYSize
	return marshalApart(plain(s))
}

// marshalApart leaves HTML as it is: the encoder that called MarshalJSON escapes it, if it wants to.
func marshalApart(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return b.Bytes(), err
}
