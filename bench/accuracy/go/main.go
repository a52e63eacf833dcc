// The bench's programs of Go: the service that everything calls, the load, and
// two of the runtimes.
//
//	accuracy leaf PORT GRPC_PORT [CERTIFICATE KEY TLS_PORT TLS_GRPC_PORT]
//	accuracy load -protocol http1 -port PORT -concurrency 8 -seconds 2 -most 1500 -tokens FILE
//	accuracy serve http|grpc        (the rest by environment; see ../python/program.py)
package main

import (
	"fmt"
	"os"
)

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "accuracy:", err)
		os.Exit(1)
	}
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: accuracy leaf|load|serve …")
		os.Exit(2)
	}
	switch os.Args[1] {
	case "leaf":
		leaf(os.Args[2:])
	case "load":
		load(os.Args[2:])
	case "serve":
		serve(os.Args[2])
	}
}
