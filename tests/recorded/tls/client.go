// A client with Go's TLS. Its ClientHello contains a post-quantum key share and is longer than what
// is captured of a call.
package main

import (
	"crypto/tls"
	"io"
	"net/http"
	"os"
)

func main() {
	client := http.Client{Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true, ServerName: "go.shop.example"},
		ForceAttemptHTTP2: true,
	}}
	response, err := client.Get(os.Args[1])
	if err != nil {
		os.Exit(1)
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
}
