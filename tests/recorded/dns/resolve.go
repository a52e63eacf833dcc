// Go's own resolver, with the server from the arguments.
package main

import (
	"context"
	"net"
	"os"
)

func main() {
	resolver := net.Resolver{
		PreferGo: true,
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, os.Args[1])
		},
	}
	ctx := context.Background()
	_, _ = resolver.LookupHost(ctx, "www.shop.example.")
	_, _ = resolver.LookupHost(ctx, "missing.shop.example.")
	_, _ = resolver.LookupTXT(ctx, "large.shop.example.")
	_, _ = resolver.LookupAddr(ctx, "10.1.2.3")
}
