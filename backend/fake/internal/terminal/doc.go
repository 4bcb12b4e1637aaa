// Package terminal is the terminals of the places of backend/fake: what is kept of their
// output, who looks at them and their records. The programs are commands like others, which
// whoever uses this package starts and ends.
package terminal
