// Command waggle is a message broker on PostgreSQL, and the tools to use and run it.
package main

import (
	_ "embed"
	"os"

	"waggle/cli"
)

// version is the build's version; everything that shows one is given this.
//
//go:embed version.txt
var version string

func main() { os.Exit(cli.Main(version)) }
