package client

// FirstToken is the reader of a file of tokens.
var FirstToken = firstToken
