// The same over gRPC: a backend, a service that calls it over one connection, and a load generator.
// Every method's name is a token, and the names of its calls begin with it.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// CALLS is the number of calls for each request.
const CALLS = 3

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func connect(url string) *grpc.ClientConn {
	secure := insecure.NewCredentials()
	address, encrypted := strings.CutPrefix(url, "https://")
	if encrypted {
		secure = credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})
	}
	address = strings.TrimPrefix(address, "http://")
	connection, err := grpc.Dial(address, grpc.WithTransportCredentials(secure))
	fail(err)
	return connection
}

func unary(connection *grpc.ClientConn, method string) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	fail(connection.Invoke(ctx, method, &emptypb.Empty{}, &emptypb.Empty{}))
}

// again makes a call that may fail.
func again(connection *grpc.ClientConn, method string) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	err := connection.Invoke(ctx, method, &emptypb.Empty{}, &emptypb.Empty{})
	if (err != nil) != strings.HasSuffix(method, "/fails") {
		fail(fmt.Errorf("%s: %v", method, err))
	}
}

// late makes calls over one connection, and goes on with the same ones for each line of its input.
func late(url string, requests int) {
	connection := connect(url)
	lines := bufio.NewScanner(os.Stdin)
	for more := true; more; more = lines.Scan() {
		for i := 0; i < requests; i++ {
			again(connection, []string{"/late/fails", "/late/works", "/late/does"}[i%3])
		}
		fmt.Println("done")
	}
}

func stream(connection *grpc.ClientConn, method string) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	description := &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}
	stream, err := connection.NewStream(ctx, description, method)
	fail(err)
	for i := 0; i < 3; i++ {
		fail(stream.SendMsg(&emptypb.Empty{}))
	}
	fail(stream.CloseSend())
	for err == nil {
		err = stream.RecvMsg(&emptypb.Empty{})
	}
	if err != io.EOF {
		fail(err)
	}
}

// errFails is the answer to methods of this name.
var errFails = status.Error(codes.Internal, "it fails")

// serve answers every method after running handle.
func serve(port, kind string, handle func(service, method string)) {
	options := []grpc.ServerOption{grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
		method, _ := grpc.MethodFromServerStream(s)
		for {
			if err := s.RecvMsg(&emptypb.Empty{}); err == io.EOF {
				break
			} else if err != nil {
				return err
			}
		}
		service, name, _ := strings.Cut(method[1:], "/")
		handle(service, name)
		if name == "fails" {
			return errFails
		}
		return s.SendMsg(&emptypb.Empty{})
	})}
	if strings.Contains(kind, "tls") {
		secure, err := credentials.NewServerTLSFromFile("cert.pem", "key.pem")
		fail(err)
		options = append(options, grpc.Creds(secure))
	}
	if strings.Contains(kind, "workers") {
		options = append(options, grpc.NumStreamWorkers(8))
	}
	listener, err := net.Listen("tcp", "127.0.0.1:"+port)
	fail(err)
	fail(grpc.NewServer(options...).Serve(listener))
}

func backend(port, kind string) {
	serve(port, kind, func(_, _ string) {
		time.Sleep(time.Duration(rand.Intn(3000)) * time.Microsecond)
	})
}

func front(port, kind, url, clientKind string) {
	connection := connect(url)
	ask := unary
	if strings.Contains(clientKind, "stream") {
		ask = stream
	}
	serve(port, kind, func(way, token string) {
		if way == "late" {
			again(connection, "/backend.0/"+token)
			return
		}
		var group sync.WaitGroup
		call := func(call int) {
			ask(connection, fmt.Sprintf("/backend.%d/%s", call, token))
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
	})
}

func load(url, way, letter string, concurrency, requests int) {
	connection := connect(url)
	var group sync.WaitGroup
	for worker := 0; worker < concurrency; worker++ {
		group.Add(1)
		go func(worker int) {
			defer group.Done()
			for i := 0; i < requests/concurrency; i++ {
				unary(connection, fmt.Sprintf("/%s/%s%08xw%di%d", way, letter, rand.Uint32(), worker, i))
			}
		}(worker)
	}
	group.Wait()
}

func number(text string) int {
	number, err := strconv.Atoi(text)
	fail(err)
	return number
}

func main() {
	switch arguments := os.Args[2:]; os.Args[1] {
	case "backend":
		backend(arguments[0], arguments[1])
	case "front":
		front(arguments[0], arguments[1], arguments[2], arguments[3])
	case "load":
		load(arguments[0], arguments[2], arguments[3], number(arguments[4]), number(arguments[5]))
	case "late":
		late(arguments[0], number(arguments[1]))
	}
}
