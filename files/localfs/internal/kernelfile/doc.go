// Package kernelfile reads regular files that the kernel makes up while they are read, in
// /proc and /sys, whose size says nothing. Linux only.
package kernelfile
