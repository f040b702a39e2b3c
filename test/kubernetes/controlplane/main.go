// Command controlplane is a Kubernetes control plane in one binary: etcd, the API server and the controller
// manager, each the real one.
//
//	controlplane etcd|apiserver|controllers FLAGS...
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

func main() {
	part := ""
	if len(os.Args) > 1 {
		part = os.Args[1]
		os.Args = append(os.Args[:1], os.Args[2:]...)
	}
	switch part {
	case "etcd":
		etcdmain.Main(os.Args)
	case "apiserver":
		os.Exit(run(apiserver.NewAPIServerCommand()))
	case "controllers":
		os.Exit(run(controllers.NewControllerManagerCommand()))
	default:
		fmt.Fprintf(os.Stderr, "controlplane: part %q; allowed: etcd, apiserver, controllers\n", part)
		os.Exit(2)
	}
}

func run(c *cobra.Command) int { return cli.Run(c) }
