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
// "[redacted]". Looked for are the values, those values without the white space around
// them, and both as URLs escape them, in base64 and in hexadecimal digits. Nothing is known
// of other encodings, of a secret that is part of something encoded, or of one that is
// spread over several arguments. A value of less than MinSecretBytes is refused: it would
// be found everywhere, and is no secret.
//
// # Writers
//
// Several goroutines and processes may write one log, on a file system of this machine:
// each line is one write in append mode, at most MaxLineBytes long. Only a disk that is
// full can tear a line.
package audit
