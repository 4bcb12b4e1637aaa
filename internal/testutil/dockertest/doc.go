// Package dockertest gives tests an engine of their own, Docker's or Podman's, and images
// that need no registry. Tests only; Linux only.
//
// # The engine
//
// An Engine starts a private dockerd when it is first asked for its Host: own
// socket, data, containerd, bridge and pid file in one temporary directory, no
// firewall rules and no sysctls, so that it runs beside any other engine and
// leaves nothing. It ends with Close, and also when the test process is killed.
// What an earlier test process could not clean up, the next start does. Podman's service
// has namespaces of its own in place of the bridge.
//
// # Environment
//
// BERTH_TEST_DOCKER_HOST names an engine to use instead ("unix:///var/run/docker.sock");
// it is neither started nor stopped, and only images named berth-test/ are added.
// BERTH_TEST_SKIP_DOCKER=1 skips the tests that need an engine. Without either, a
// missing Debian package fails the test and names the package. For Podman the variables
// are BERTH_TEST_PODMAN_HOST and BERTH_TEST_SKIP_PODMAN.
package dockertest
