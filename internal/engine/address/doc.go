// Package address finds a container engine and connects to it: by a socket of this
// machine, by TCP with or without TLS, or by SSH; named by an address or by a context of
// Docker's command line.
//
// An Options value holds what was asked for, whoever read it from where; package address
// reads no environment. What it does read are the files that the options name: those of
// contexts, and certificates.
//
// Every refusal is one line that names what is wrong, with the cure as its hint.
package address
