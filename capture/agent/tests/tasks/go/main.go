// A backend, a service that calls it in all possible ways, and a load generator. Every request has
// a token in its path, and so do its calls.
package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"math/rand"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// CALLS is the number of calls for each request.
const CALLS = 3

func client(kind string, connections int) *http.Client {
	transport := &http.Transport{
		MaxIdleConnsPerHost: connections,
		DisableKeepAlives:   strings.Contains(kind, "fresh"),
		TLSClientConfig:     &tls.Config{InsecureSkipVerify: true},
		ForceAttemptHTTP2:   strings.Contains(kind, "h2"),
	}
	return &http.Client{Transport: transport, Timeout: 20 * time.Second}
}

func get(client *http.Client, url string) {
	response, err := client.Get(url)
	if err != nil {
		fmt.Fprintln(os.Stderr, url, err)
		os.Exit(1)
	}
	io.Copy(io.Discard, response.Body)
	response.Body.Close()
}

// serve listens on a port, with TLS if the kind says so, and with the HTTP versions that it names.
func serve(port, kind string, handler http.HandlerFunc) {
	server := &http.Server{Addr: "127.0.0.1:" + port, Handler: handler}
	if !strings.Contains(kind, "h2") {
		server.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){}
	}
	var err error
	if strings.Contains(kind, "tls") {
		err = server.ListenAndServeTLS("cert.pem", "key.pem")
	} else {
		err = server.ListenAndServe()
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func backend(port, kind string) {
	serve(port, kind, func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(time.Duration(rand.Intn(3000)) * time.Microsecond)
		io.WriteString(w, "ok")
	})
}

func front(port, kind, url, clientKind string) {
	client := client(clientKind, 512)
	serve(port, kind, func(w http.ResponseWriter, r *http.Request) {
		way, token, _ := strings.Cut(r.URL.Path[1:], "/")
		var group sync.WaitGroup
		call := func(call int) {
			get(client, fmt.Sprintf("%s/%s/%d", url, token, call))
			group.Done()
		}
		group.Add(CALLS)
		for i := 0; i < CALLS; i++ {
			switch way {
			case "sequential":
				call(i)
			case "parallel":
				go call(i)
			case "deep":
				go func(i int) {
					inner := make(chan bool)
					go func() {
						call(i)
						inner <- true
					}()
					<-inner
				}(i)
			}
		}
		group.Wait()
		io.WriteString(w, "ok")
	})
}

func load(url, kind, way, letter string, concurrency, requests int) {
	client := client(kind, concurrency)
	var group sync.WaitGroup
	for worker := 0; worker < concurrency; worker++ {
		group.Add(1)
		go func(worker int) {
			defer group.Done()
			for i := 0; i < requests/concurrency; i++ {
				token := fmt.Sprintf("%s%08xw%di%d", letter, rand.Uint32(), worker, i)
				get(client, fmt.Sprintf("%s/%s/%s", url, way, token))
			}
		}(worker)
	}
	group.Wait()
}

func number(text string) int {
	number, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return number
}

func main() {
	switch arguments := os.Args[2:]; os.Args[1] {
	case "backend":
		backend(arguments[0], arguments[1])
	case "front":
		front(arguments[0], arguments[1], arguments[2], arguments[3])
	case "load":
		load(arguments[0], arguments[1], arguments[2], arguments[3], number(arguments[4]),
			number(arguments[5]))
	}
}
