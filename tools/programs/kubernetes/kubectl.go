//go:build programs && kubectl

package main

import (
	"github.com/spf13/cobra"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

func init() {
	commands["kubectl"] = func() *cobra.Command {
		run = func(command *cobra.Command) int {
			util.CheckErr(cli.RunNoErrOutput(command)) // prints as kubectl does, and exits
			return 0
		}
		return cmd.NewDefaultKubectlCommand()
	}
}
