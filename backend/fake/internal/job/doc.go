// Package job keeps the jobs of a place of backend/fake: their records, logs and what
// their owners have not been told of. It starts and ends no process.
package job
