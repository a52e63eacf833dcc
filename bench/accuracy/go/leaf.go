package main

import (
	"context"
	"crypto/tls"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

const (
	leastDelay = time.Millisecond
	mostDelay  = 10 * time.Millisecond
	answer     = `{"answer":"what was asked for, in about as many bytes as a small record has"}` + "\n"
)

// raw passes messages through unchanged.
type raw struct{}

func (raw) Marshal(value any) ([]byte, error) { return *value.(*[]byte), nil }
func (raw) Unmarshal(bytes []byte, value any) error {
	*value.(*[]byte) = append([]byte(nil), bytes...)
	return nil
}
func (raw) Name() string { return "proto" }

// delay is the time that a response takes. Requests overlap, and do not end in order.
func delay() { time.Sleep(leastDelay + rand.N(mostDelay-leastDelay)) }

// grpcServer answers all methods. A method's name is the token.
func grpcServer(handle func(context.Context, string) ([]byte, error), options ...grpc.ServerOption) *grpc.Server {
	options = append(options, grpc.ForceServerCodec(raw{}), grpc.MaxConcurrentStreams(1000),
		grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
			var request []byte
			if err := stream.RecvMsg(&request); err != nil {
				return err
			}
			method, _ := grpc.MethodFromServerStream(stream)
			reply, err := handle(stream.Context(), method)
			if err != nil {
				return err
			}
			return stream.SendMsg(&reply)
		}))
	return grpc.NewServer(options...)
}

func listen(port string) net.Listener {
	listener, err := net.Listen("tcp", "127.0.0.1:"+port)
	must(err)
	return listener
}

func protocols() *http.Protocols {
	both := new(http.Protocols)
	both.SetHTTP1(true)
	both.SetHTTP2(true)
	both.SetUnencryptedHTTP2(true)
	return both
}

func leaf(arguments []string) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		delay()
		w.Write([]byte(answer))
	})
	byGrpc := func(context.Context, string) ([]byte, error) {
		delay()
		return []byte(answer), nil
	}
	server := &http.Server{Handler: handler, Protocols: protocols(), HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 1000}}
	go func() { must(server.Serve(listen(arguments[0]))) }()
	go func() { must(grpcServer(byGrpc).Serve(listen(arguments[1]))) }()
	if len(arguments) > 2 {
		pair, err := tls.LoadX509KeyPair(arguments[2], arguments[3])
		must(err)
		config := &tls.Config{Certificates: []tls.Certificate{pair}}
		secure := &http.Server{Handler: handler, Protocols: protocols(), TLSConfig: config,
			HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 1000}}
		go func() { must(secure.ServeTLS(listen(arguments[4]), "", "")) }()
		go func() {
			must(grpcServer(byGrpc, grpc.Creds(credentials.NewTLS(config.Clone()))).Serve(listen(arguments[5])))
		}()
	}
	select {}
}
