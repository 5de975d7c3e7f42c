// Package agenttest drives the protocols of agents in tests. It plays recordings of the real
// programs to a protocol, keeps the events as a dialogue does, and checks the rules that hold
// for every agent: see Talk, UniqueIDs, LinesOfOthers and Fuzz.
package agenttest
