// Package kubernetes tests jobs on a real control plane: etcd, the API server and the controllers of
// Kubernetes, which decide what is started, replaced and deleted. The tests simulate only the node: it
// starts each container of a pod as a process in namespaces of its own, with its variables, addresses
// and names, reports its status, and ends it with SIGTERM and, after the grace period, SIGKILL. `make
// kubernetes` runs them.
//
// It is a module of its own, so that no other package needs its dependencies.
package kubernetes
