// Package snapshotcmd holds the verbs of berth that freeze a sandbox and that keep its files:
// suspend, resume, snapshot, snapshots, restore and fork.
package snapshotcmd
