// Zipkin's own Go client.
package main

import (
	"time"

	zipkin "github.com/openzipkin/zipkin-go"
	"github.com/openzipkin/zipkin-go/model"
	"github.com/openzipkin/zipkin-go/proto/zipkin_proto3"
	"github.com/openzipkin/zipkin-go/reporter"
	"github.com/openzipkin/zipkin-go/reporter/http"
)

func zipkinTree(service, endpoint string, protobuf bool) (string, error) {
	var form reporter.SpanSerializer = reporter.JSONSerializer{}
	if protobuf {
		form = zipkin_proto3.SpanSerializer{}
	}
	to := http.NewReporter(endpoint, http.Serializer(form))
	tracer, err := zipkin.NewTracer(to, zipkin.WithTraceID128Bit(true),
		zipkin.WithLocalEndpoint(&model.Endpoint{ServiceName: service}))
	if err != nil {
		return "", err
	}
	root := tracer.StartSpan("checkout", zipkin.Kind(model.Server))
	price := tracer.StartSpan("price", zipkin.Parent(root.Context()))
	price.Tag("items", "3")
	price.Annotate(time.Now(), "cache miss")
	price.Finish()
	charge := tracer.StartSpan("charge", zipkin.Parent(root.Context()), zipkin.Kind(model.Client))
	zipkin.TagError.Set(charge, "card declined")
	charge.Finish()
	root.Finish()
	return root.Context().TraceID.String(), to.Close()
}
