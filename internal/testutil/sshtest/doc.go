// Package sshtest gives tests a real OpenSSH server on a loopback port, and a TCP
// proxy in front of it that delays, cuts and counts.
//
// Everything is the test's own: configuration, host keys, the client's key, the
// known_hosts file. What a test started is ended with it: the server, its
// connections, the proxy. Commands that a connection started and that left its
// session are the test's own to end.
package sshtest
