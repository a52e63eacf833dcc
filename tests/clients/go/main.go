// Sends the known tree with one of Go's clients: tree CLIENT SERVICE ENDPOINT. Prints the trace's
// id. See record.go and otap.go for other modes.
package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"time"

	opentracing "github.com/opentracing/opentracing-go"
	"github.com/opentracing/opentracing-go/ext"
	"github.com/opentracing/opentracing-go/log"
	"github.com/uber/jaeger-client-go"
	"github.com/uber/jaeger-client-go/transport"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/exporters/zipkin"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

func openTelemetry(exporter sdk.SpanExporter, service string) (string, error) {
	named := resource.NewSchemaless(attribute.String("service.name", service))
	provider := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(named))
	tracer := provider.Tracer("tree")
	ctx, root := tracer.Start(context.Background(), "checkout", trace.WithSpanKind(trace.SpanKindServer))
	_, price := tracer.Start(ctx, "price", trace.WithAttributes(attribute.Int("items", 3)))
	price.AddEvent("cache miss")
	price.End()
	_, charge := tracer.Start(ctx, "charge", trace.WithSpanKind(trace.SpanKindClient))
	charge.SetStatus(codes.Error, "card declined")
	charge.End()
	root.End()
	return root.SpanContext().TraceID().String(), provider.Shutdown(context.Background())
}

func jaegerClient(to jaeger.Transport, service string) (string, error) {
	reporter := jaeger.NewRemoteReporter(to)
	tracer, closer := jaeger.NewTracer(service, jaeger.NewConstSampler(true), reporter,
		jaeger.TracerOptions.Gen128Bit(true))
	root := tracer.StartSpan("checkout", ext.SpanKindRPCServer)
	below := opentracing.ChildOf(root.Context())
	price := tracer.StartSpan("price", below, opentracing.Tag{Key: "items", Value: 3})
	price.LogFields(log.Event("cache miss"))
	price.Finish()
	charge := tracer.StartSpan("charge", below, ext.SpanKindRPCClient)
	ext.Error.Set(charge, true)
	charge.LogFields(log.Event("error"), log.String("error.kind", "card declined"))
	charge.Finish()
	root.Finish()
	id := root.Context().(jaeger.SpanContext).TraceID()
	return fmt.Sprintf("%016x%016x", id.High, id.Low), closer.Close()
}

func send(client, service, endpoint string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	at, err := url.Parse(endpoint)
	if err != nil {
		return "", err
	}
	var exporter sdk.SpanExporter
	switch client {
	case "otlp-grpc":
		exporter, err = otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(endpoint), otlptracegrpc.WithCompressor("gzip"))
	case "otlp-http":
		exporter, err = otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(endpoint))
	case "otap", "otap-zstd":
		return otapTree(service, endpoint, client == "otap-zstd")
	case "otap-every":
		return otapEvery(service, endpoint)
	case "otap-large":
		return otapLarge(service, endpoint)
	case "zipkin-go-json", "zipkin-go-protobuf":
		return zipkinTree(service, endpoint, client == "zipkin-go-protobuf")
	case "zipkin-json":
		exporter, err = zipkin.New(endpoint)
	case "jaeger-http":
		return jaegerClient(transport.NewHTTPTransport(endpoint), service)
	case "jaeger-udp":
		udp, err := jaeger.NewUDPTransport(at.Host, 0)
		if err != nil {
			return "", err
		}
		return jaegerClient(udp, service)
	default:
		return "", fmt.Errorf("no client %q", client)
	}
	if err != nil {
		return "", err
	}
	return openTelemetry(exporter, service)
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == "record" {
		if err := record(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	id, err := send(os.Args[1], os.Args[2], os.Args[3])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(id)
}
