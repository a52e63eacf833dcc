package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

const idleConnections = 1024

var (
	certificate = os.Getenv("CERTIFICATE")
	parallel    = os.Getenv("FAN_OUT") == "parallel"
	fresh       = os.Getenv("CONNECTIONS") == "fresh"
	http2       = os.Getenv("HTTP") == "2"
	leafAddress = "127.0.0.1:" + os.Getenv("LEAF_PORT")
)

// work uses a little processor time, like a handler.
func work(bytes []byte) []byte {
	return fmt.Appendf(nil, "%x", sha256.Sum256(append(bytes, make([]byte, 4096)...)))
}

func pause() { time.Sleep(rand.N(2 * time.Millisecond)) }

func serverTLS() *tls.Config {
	pair, err := tls.LoadX509KeyPair(certificate, os.Getenv("KEY"))
	must(err)
	return &tls.Config{Certificates: []tls.Certificate{pair}}
}

func clientTLS() *tls.Config {
	pem, err := os.ReadFile(certificate)
	must(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	return &tls.Config{RootCAs: roots}
}

// truth records which calls were made for which request.
type truth struct {
	lock sync.Mutex
	file *os.File
}

func (t *truth) note(request string, made []string) {
	t.lock.Lock()
	defer t.lock.Unlock()
	fmt.Fprintln(t.file, path.Base(request), strings.Join(made, " "))
}

// inBackground makes background calls, like a cache refresh.
func inBackground(known *truth, call func(context.Context, string) ([]byte, error)) {
	for ; ; time.Sleep(5 * time.Millisecond) {
		token := token()
		known.note("-", []string{token})
		if _, err := call(context.Background(), token); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
}

// handler serves requests in both servers.
func handler(call func(context.Context, string) ([]byte, error)) func(context.Context, string) ([]byte, error) {
	file, err := os.OpenFile(os.Getenv("TRUTH"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	must(err)
	known := &truth{file: file}
	if os.Getenv("BACKGROUND") != "" {
		go inBackground(known, call)
	}
	return func(context context.Context, request string) ([]byte, error) {
		work([]byte(request))
		pause()
		made := []string{token(), token()}
		if parallel {
			made = append(made, token())
		}
		replies, failures := make([][]byte, len(made)), make([]error, len(made))
		var group sync.WaitGroup
		for index, token := range made {
			one := func() { replies[index], failures[index] = call(context, token) }
			if parallel {
				group.Go(one)
				continue
			}
			one()
			pause()
		}
		group.Wait()
		if err := errors.Join(failures...); err != nil {
			return nil, err
		}
		known.note(request, made)
		var all []byte
		for _, reply := range replies {
			all = append(all, reply...)
		}
		return work(all), nil
	}
}

// poolSize is far below the requests at a time of the larger cells.
const poolSize = 32

// pooled has calls made by goroutines that are made in requests, when all others are busy, and
// then go on with the calls of others.
func pooled(call func(context.Context, string) ([]byte, error)) func(context.Context, string) ([]byte, error) {
	jobs := make(chan func())
	var made atomic.Int32
	return func(context context.Context, token string) (reply []byte, err error) {
		done := make(chan struct{})
		job := func() {
			reply, err = call(context, token)
			close(done)
		}
		select {
		case jobs <- job:
		default:
			if made.Add(1) > poolSize {
				jobs <- job
				break
			}
			go func() {
				for {
					job()
					job = <-jobs
				}
			}()
		}
		<-done
		return
	}
}

func serveHttp() {
	transport := &http.Transport{MaxIdleConns: idleConnections, MaxIdleConnsPerHost: idleConnections, DisableKeepAlives: fresh}
	scheme := "http"
	transport.Protocols = new(http.Protocols)
	switch {
	case http2 && certificate != "":
		transport.Protocols.SetHTTP2(true)
	case http2:
		transport.Protocols.SetUnencryptedHTTP2(true)
	default:
		transport.Protocols.SetHTTP1(true)
	}
	if certificate != "" {
		transport.TLSClientConfig, scheme = clientTLS(), "https"
	}
	client := &http.Client{Transport: transport}
	call := func(context context.Context, token string) ([]byte, error) {
		request, err := http.NewRequestWithContext(context, "GET", scheme+"://"+leafAddress+"/leaf/"+token, nil)
		if err != nil {
			return nil, err
		}
		response, err := client.Do(request)
		if err != nil {
			return nil, err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("status %d", response.StatusCode)
		}
		return io.ReadAll(response.Body)
	}
	if os.Getenv("STYLE") == "pool" {
		call = pooled(call)
	}
	handle := handler(call)
	server := &http.Server{Protocols: protocols(), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := handle(r.Context(), r.URL.Path)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			http.Error(w, "failed", http.StatusInternalServerError)
			return
		}
		w.Write(body)
	})}
	listener := listen(os.Getenv("PORT"))
	if certificate != "" {
		server.TLSConfig = serverTLS()
		must(server.ServeTLS(listener, "", ""))
	}
	must(server.Serve(listener))
}

func serveGrpc() {
	security, options := insecure.NewCredentials(), []grpc.ServerOption{}
	if certificate != "" {
		security = credentials.NewTLS(clientTLS())
		options = append(options, grpc.Creds(credentials.NewTLS(serverTLS())))
	}
	dial := func() *grpc.ClientConn {
		client, err := grpc.NewClient(leafAddress, grpc.WithTransportCredentials(security),
			grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{})))
		must(err)
		return client
	}
	shared := dial()
	server := grpcServer(handler(func(context context.Context, token string) ([]byte, error) {
		client := shared
		if fresh {
			client = dial()
			defer client.Close()
		}
		var request, reply []byte
		err := client.Invoke(context, "/leaf/"+token, &request, &reply)
		return reply, err
	}), options...)
	must(server.Serve(listen(os.Getenv("PORT"))))
}

func serve(kind string) {
	if kind == "grpc" {
		serveGrpc()
	}
	serveHttp()
}
