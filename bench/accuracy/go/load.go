package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// Number of concurrent HTTP/2 requests on a connection.
const streamsOfConnection = 64

const patience = 30 * time.Second

func token() string {
	bytes := make([]byte, 8)
	rand.Read(bytes)
	return hex.EncodeToString(bytes)
}

// The run's own certificate, which need not be verified.
var anyCertificate = &tls.Config{InsecureSkipVerify: true}

// get requests a path and reads the whole response.
type get func(path string) error

// overHttp1 uses one connection.
func overHttp1(address string, secure bool) get {
	var connection net.Conn
	var reader *bufio.Reader
	return func(path string) error {
		if connection == nil {
			var err error
			if secure {
				connection, err = tls.Dial("tcp", address, anyCertificate)
			} else {
				connection, err = net.Dial("tcp", address)
			}
			if err != nil {
				connection = nil
				return err
			}
			reader = bufio.NewReader(connection)
		}
		connection.SetDeadline(time.Now().Add(patience))
		_, err := fmt.Fprintf(connection, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, address)
		var response *http.Response
		if err == nil {
			response, err = http.ReadResponse(reader, nil)
		}
		if err == nil {
			_, err = io.Copy(io.Discard, response.Body)
		}
		if err != nil || response.Close {
			connection.Close()
			connection = nil
		}
		if err == nil && response.StatusCode != http.StatusOK {
			err = fmt.Errorf("status %d", response.StatusCode)
		}
		return err
	}
}

func overHttp2(address string, secure bool) get {
	protocols, scheme := new(http.Protocols), "http"
	if secure {
		protocols.SetHTTP2(true)
		scheme = "https"
	} else {
		protocols.SetUnencryptedHTTP2(true)
	}
	client := &http.Client{Timeout: patience, Transport: &http.Transport{Protocols: protocols, TLSClientConfig: anyCertificate}}
	return func(path string) error {
		response, err := client.Get(scheme + "://" + address + path)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if _, err = io.Copy(io.Discard, response.Body); err == nil && response.StatusCode != http.StatusOK {
			err = fmt.Errorf("status %d", response.StatusCode)
		}
		return err
	}
}

func overGrpc(address string, secure bool) get {
	security := insecure.NewCredentials()
	if secure {
		security = credentials.NewTLS(anyCertificate)
	}
	client, err := grpc.NewClient(address, grpc.WithTransportCredentials(security),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{})))
	must(err)
	return func(path string) error {
		limit, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		var request, reply []byte
		return client.Invoke(limit, path, &request, &reply)
	}
}

// load keeps a number of requests in progress, each with its own token, and writes the tokens of
// answered requests to a file.
func load(arguments []string) {
	flags := flag.NewFlagSet("load", flag.ExitOnError)
	protocol := flags.String("protocol", "http1", "http1, http2 or grpc")
	port := flags.String("port", "", "where")
	secure := flags.Bool("tls", false, "over TLS")
	concurrency := flags.Int("concurrency", 1, "requests at a time")
	seconds := flags.Float64("seconds", 2, "no request begins after this")
	most := flags.Int64("most", 1500, "requests in all")
	tokens := flags.String("tokens", "", "file for the tokens of requests that were answered")
	flags.Parse(arguments)
	connect := map[string]func(string, bool) get{"http1": overHttp1, "http2": overHttp2, "grpc": overGrpc}[*protocol]
	if connect == nil || *concurrency < 1 {
		flags.Usage()
		os.Exit(2)
	}
	file, err := os.Create(*tokens)
	must(err)
	written := bufio.NewWriter(file)
	var lock sync.Mutex
	var begun, answered, failed, latencyMicros atomic.Int64
	var first atomic.Value
	var group sync.WaitGroup
	var shared get
	start := time.Now()
	end := start.Add(time.Duration(*seconds * float64(time.Second)))
	for worker := range *concurrency {
		if shared == nil || *protocol == "http1" || worker%streamsOfConnection == 0 {
			shared = connect("127.0.0.1:"+*port, *secure)
		}
		ask := shared
		group.Go(func() {
			for time.Now().Before(end) && begun.Add(1) <= *most {
				mine, asked := token(), time.Now()
				if err := ask("/r/" + mine); err != nil {
					failed.Add(1)
					first.CompareAndSwap(nil, err.Error())
					continue
				}
				latencyMicros.Add(time.Since(asked).Microseconds())
				answered.Add(1)
				lock.Lock()
				fmt.Fprintln(written, mine)
				lock.Unlock()
			}
		})
	}
	group.Wait()
	must(written.Flush())
	must(file.Close())
	took := time.Since(start).Seconds()
	said, _ := first.Load().(string)
	must(json.NewEncoder(os.Stdout).Encode(map[string]any{
		"answered": answered.Load(), "failed": failed.Load(), "error": said, "seconds": took,
		// Little's law: the average number of requests in progress.
		"under_way": float64(latencyMicros.Load()) / 1e6 / took,
	}))
}
