// Package audit keeps a log of what is done to a sandbox: an append-only file on this side,
// where the sandbox cannot reach it, with secrets taken out by their values.
//
//	log, err := audit.Open("/var/log/agents/session-1.jsonl", audit.Options{Secrets: []string{token}})
//	...
//	sb.Audit(log)
//
// The log has one JSON object a line. What is asked for is written before it is asked for,
// and is not asked for if that fails; what became of it is written after. So of a command
// whose second line is missing it is known that it may have run.
//
// # Secrets
//
// Every text of a record is searched for the secrets before anything of it is encoded or
// cut: each stretch that one of them covers, or several that overlap or touch, becomes
// "[redacted]". An error is searched in the parts that it is made of, and then as a whole;
// what another side has cut may end with no beginning of a secret. Looked for are the
// values, those values without the white space around them and as messages show them, and
// all of these as Go, JSON and shells quote them, once or twice, as URLs escape them, in
// base64 and in hexadecimal digits. Nothing is known of other encodings, of a secret that is
// part of something compressed or encrypted, or of one that is spread over several
// arguments. A value of less than MinSecretBytes is refused: it would be found everywhere,
// and is no secret.
//
// # Writers
//
// Several goroutines and processes may write one log, on a file system of this machine:
// each line is one write in append mode, at most MaxLineBytes long. A disk that is full and
// the end of a writer can tear a line; the next record begins on one of its own.
//
// # Whose it is
//
// A log is a regular file of its user's with one name, in a directory of that user's or of
// the system's, and nobody else can write either: anything else is neither written nor read.
package audit
