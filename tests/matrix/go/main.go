// Servers and clients of Go for ../matrix.py: HTTP, HTTP/2, gRPC and FastCGI, in
// plain text or with crypto/tls.
//
//	matrix serve http|grpc|fastcgi PORT [CERTIFICATE KEY]
//	matrix http1|http2|grpc MODE PORT [CERTIFICATE]
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/fcgi"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const concurrent = 20

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// note is a request's record for ../judge.py.
type note struct {
	Op           string `json:"op"`
	Failed       bool   `json:"failed"`
	Code         int    `json:"code"`
	ServerFailed bool   `json:"server_failed"`
}

var notes sync.Mutex

func did(what note) {
	notes.Lock()
	defer notes.Unlock()
	must(json.NewEncoder(os.Stdout).Encode(what))
}

// do runs the work of each number, concurrently or sequentially.
func do(mode string, count int, work func(int)) {
	var group sync.WaitGroup
	for number := range count {
		if mode == "multiplexed" {
			group.Go(func() { work(number) })
		} else {
			work(number)
		}
	}
	group.Wait()
}

// ---- HTTP ------------------------------------------------------------------

var codesOfPath = map[string]int{"index": 200, "missing": 404, "gone": 503, "empty": 204}

// answer responds as the first word of the path says, later requests sooner.
func answer(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	word, _, _ := strings.Cut(strings.Trim(r.URL.Path, "/"), "-")
	time.Sleep(time.Duration(len(r.URL.Path)%4) * 3 * time.Millisecond)
	code, known := codesOfPath[strings.TrimSuffix(word, ".html")]
	if !known {
		code = 404
	}
	w.WriteHeader(code)
	if code != 204 {
		fmt.Fprintln(w, "geheim")
	}
}

func serveHTTP(listener net.Listener, handler http.Handler) {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: handler, Protocols: &protocols}
	if files := os.Args[4:]; len(files) == 2 {
		must(server.ServeTLS(listener, files[0], files[1]))
	}
	must(server.Serve(listener))
}

func trusting(files []string) *tls.Config {
	if len(files) == 0 {
		return nil
	}
	pem, err := os.ReadFile(files[0])
	must(err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	return &tls.Config{RootCAs: pool}
}

func askHTTP(version int, mode, port string, config *tls.Config) {
	var protocols http.Protocols
	protocols.SetHTTP1(version == 1)
	protocols.SetHTTP2(version == 2)
	protocols.SetUnencryptedHTTP2(version == 2)
	transport := &http.Transport{Protocols: &protocols, TLSClientConfig: config, MaxConnsPerHost: 1}
	client := http.Client{Transport: transport}
	scheme := "http"
	if config != nil {
		scheme = "https"
	}
	ask := func(path string) {
		response, err := client.Get(fmt.Sprintf("%s://127.0.0.1:%s%s", scheme, port, path))
		must(err)
		io.Copy(io.Discard, response.Body)
		response.Body.Close()
		code := response.StatusCode
		did(note{"GET " + path, code >= 400, code, code >= 500})
	}
	// So that all use one connection.
	ask("/index.html")
	words := []string{"missing", "gone", "empty", "gone-by"}
	do(mode, concurrent, func(number int) {
		ask("/" + words[number%4] + "-" + string(rune('a'+number)) + strings.Repeat("x", number%3))
	})
	transport.CloseIdleConnections()
	time.Sleep(50 * time.Millisecond)
}

// ---- gRPC ------------------------------------------------------------------

const service = "shop.v1.Orders"

type text = wrapperspb.StringValue

// unary responds with a code, after some time.
func unary(code codes.Code) func(any, context.Context, func(any) error, grpc.UnaryServerInterceptor) (any, error) {
	return func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		var request text
		if err := decode(&request); err != nil {
			return nil, err
		}
		time.Sleep(time.Duration(len(request.Value)%4) * 3 * time.Millisecond)
		if code != codes.OK {
			return nil, status.Error(code, "no such order")
		}
		return wrapperspb.String("ok " + request.Value), nil
	}
}

// stream reads all messages, responds to each or to all with one message, and sends three more.
func stream(each bool) func(any, grpc.ServerStream) error {
	return func(_ any, stream grpc.ServerStream) error {
		for {
			var request text
			if err := stream.RecvMsg(&request); err == io.EOF {
				break
			} else if err != nil {
				return err
			}
			if each {
				must(stream.SendMsg(wrapperspb.String("re " + request.Value)))
			}
		}
		if !each {
			must(stream.SendMsg(wrapperspb.String("all")))
		}
		return nil
	}
}

func serveGRPC(listener net.Listener) {
	var options []grpc.ServerOption
	if files := os.Args[4:]; len(files) == 2 {
		secure, err := credentials.NewServerTLSFromFile(files[0], files[1])
		must(err)
		options = append(options, grpc.Creds(secure))
	}
	server := grpc.NewServer(options...)
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: service,
		HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{
			{MethodName: "Place", Handler: unary(codes.OK)},
			{MethodName: "Find", Handler: unary(codes.NotFound)},
			{MethodName: "Break", Handler: unary(codes.Internal)},
		},
		Streams: []grpc.StreamDesc{
			{StreamName: "Upload", Handler: stream(false), ClientStreams: true},
			{StreamName: "Chat", Handler: stream(true), ServerStreams: true, ClientStreams: true},
		},
	}, struct{}{})
	must(server.Serve(listener))
}

func askGRPC(mode, port string, config *tls.Config) {
	secure := insecure.NewCredentials()
	if config != nil {
		secure = credentials.NewTLS(config)
	}
	connection, err := grpc.NewClient("passthrough:///127.0.0.1:"+port, grpc.WithTransportCredentials(secure))
	must(err)
	ctx := context.Background()
	ended := func(method string, err error) {
		code := int(status.Code(err))
		did(note{service + "/" + method, code != 0, code, code == int(codes.Internal)})
	}
	var response text
	methods := []string{"Place", "Find", "Break", "Upload", "Chat"}
	work := func(number int) {
		method := methods[number%len(methods)]
		var response text
		if number%len(methods) < 3 {
			request := wrapperspb.String(strings.Repeat("x", number))
			ended(method, connection.Invoke(ctx, "/"+service+"/"+method, request, &response))
			return
		}
		description := grpc.StreamDesc{StreamName: method, ClientStreams: true, ServerStreams: method == "Chat"}
		stream, err := connection.NewStream(ctx, &description, "/"+service+"/"+method)
		must(err)
		for range 3 {
			must(stream.SendMsg(wrapperspb.String("geheim")))
		}
		must(stream.CloseSend())
		for err == nil {
			err = stream.RecvMsg(&response)
		}
		if err == io.EOF {
			err = nil
		}
		ended(method, err)
	}
	ended("Place", connection.Invoke(ctx, "/"+service+"/Place", wrapperspb.String("first"), &response))
	do(mode, concurrent, work)
	connection.Close()
	time.Sleep(50 * time.Millisecond)
}

func main() {
	what := os.Args[1]
	if what == "serve" {
		listener, err := net.Listen("tcp", "127.0.0.1:"+os.Args[3])
		must(err)
		switch os.Args[2] {
		case "http":
			serveHTTP(listener, http.HandlerFunc(answer))
		case "grpc":
			serveGRPC(listener)
		case "fastcgi":
			must(fcgi.Serve(listener, http.HandlerFunc(answer)))
		}
		return
	}
	mode, port, config := os.Args[2], os.Args[3], trusting(os.Args[4:])
	switch what {
	case "http1":
		askHTTP(1, mode, port, config)
	case "http2":
		askHTTP(2, mode, port, config)
	case "grpc":
		askGRPC(mode, port, config)
	}
}
