// Package race tells a test whether it runs under the race detector, where a bound on
// memory has to allow for the detector's own.
package race
