// OTAP with the reference implementation: the producer of the Collector's otelarrow exporter, on
// our own stream.
//
// Besides the known tree it sends spans with all possible contents, over OTAP and over OTLP, to
// compare what the server shows; and batches with more texts than a dictionary can hold.
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/klauspost/compress/zstd"
	arrowpb "github.com/open-telemetry/otel-arrow/go/api/experimental/arrow/v1"
	"github.com/open-telemetry/otel-arrow/go/pkg/config"
	"github.com/open-telemetry/otel-arrow/go/pkg/otel/arrow_record"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
)

// zstdArrow is zstd under the exporter's name for it, which includes the level.
type zstdArrow struct{}

func (zstdArrow) Name() string { return "zstdarrow5" }

func (zstdArrow) Compress(to io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(to) }

func (zstdArrow) Decompress(from io.Reader) (io.Reader, error) { return zstd.NewReader(from) }

func init() {
	encoding.RegisterCompressor(zstdArrow{})
}

func otapProducer(compressed bool) *arrow_record.Producer {
	if compressed {
		return arrow_record.NewProducerWithOptions(config.WithZstd())
	}
	return arrow_record.NewProducerWithOptions(config.WithNoZstd())
}

// batchOf returns what the exporter sends for these spans, with its additional headers.
func batchOf(producer *arrow_record.Producer, traces ptrace.Traces, headers *headerEncoder) (*arrowpb.BatchArrowRecords, error) {
	batch, err := producer.BatchArrowRecordsFromTraces(traces)
	if err != nil {
		return nil, err
	}
	batch.Headers, err = headers.encode("traceparent", "00-0102030405060708090a0b0c0d0e0f10-0102030405060708-01")
	return batch, err
}

// headerEncoder contains the state of a stream's headers.
type headerEncoder struct {
	buffer  bytes.Buffer
	encoder *hpack.Encoder
}

func newHeaderEncoder() *headerEncoder {
	headers := &headerEncoder{}
	headers.encoder = hpack.NewEncoder(&headers.buffer)
	return headers
}

func (headers *headerEncoder) encode(name, value string) ([]byte, error) {
	headers.buffer.Reset()
	err := headers.encoder.WriteField(hpack.HeaderField{Name: name, Value: value})
	return bytes.Clone(headers.buffer.Bytes()), err
}

func connect(endpoint string) (*grpc.ClientConn, error) {
	at, err := url.Parse(endpoint)
	if err != nil {
		return nil, err
	}
	return grpc.NewClient(at.Host, grpc.WithTransportCredentials(insecure.NewCredentials()))
}

// sendOtap sends batches on one stream. All must be accepted.
func sendOtap(endpoint string, options []grpc.CallOption, compressed bool, batches func(yield func(ptrace.Traces) error) error) error {
	connection, err := connect(endpoint)
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Second)
	defer cancel()
	stream, err := arrowpb.NewArrowTracesServiceClient(connection).ArrowTraces(ctx, options...)
	if err != nil {
		return err
	}
	producer := otapProducer(compressed)
	defer producer.Close()
	waiting, headers := map[int64]bool{}, newHeaderEncoder()
	heard := make(chan error, 1)
	answers := make(chan *arrowpb.BatchStatus, 1024)
	go func() {
		for {
			answer, err := stream.Recv()
			if err != nil {
				close(answers)
				if errors.Is(err, io.EOF) {
					err = nil
				}
				heard <- err
				return
			}
			answers <- answer
		}
	}()
	err = batches(func(traces ptrace.Traces) error {
		batch, err := batchOf(producer, traces, headers)
		if err != nil {
			return err
		}
		waiting[batch.BatchId] = true
		return stream.Send(batch)
	})
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	for answer := range answers {
		if answer.StatusCode != arrowpb.StatusCode_OK || answer.StatusMessage != "" {
			return fmt.Errorf("batch %d: %s: %s", answer.BatchId, answer.StatusCode, answer.StatusMessage)
		}
		if !waiting[answer.BatchId] {
			return fmt.Errorf("batch %d is answered, and was not sent or was answered before", answer.BatchId)
		}
		delete(waiting, answer.BatchId)
	}
	if err := <-heard; err != nil {
		return err
	}
	if len(waiting) > 0 {
		return fmt.Errorf("%d batches were not answered", len(waiting))
	}
	return nil
}

// sendOtlp sends batches like the Collector's OTLP exporter.
func sendOtlp(endpoint string, batches func(yield func(ptrace.Traces) error) error) error {
	connection, err := connect(endpoint)
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Second)
	defer cancel()
	client := ptraceotlp.NewGRPCClient(connection)
	return batches(func(traces ptrace.Traces) error {
		answer, err := client.Export(ctx, ptraceotlp.NewExportRequestFromTraces(traces))
		if err == nil && answer.PartialSuccess().RejectedSpans() > 0 {
			err = errors.New(answer.PartialSuccess().ErrorMessage())
		}
		return err
	})
}

func otapTree(service, endpoint string, compressed bool) (string, error) {
	var options []grpc.CallOption
	if compressed {
		options = append(options, grpc.UseCompressor(zstdArrow{}.Name()))
	}
	traces, trace := ptrace.NewTraces(), pcommon.TraceID{}
	rand.Read(trace[:])
	resource := traces.ResourceSpans().AppendEmpty()
	resource.Resource().Attributes().PutStr("service.name", service)
	spans, now := resource.ScopeSpans().AppendEmpty().Spans(), time.Now()
	add := func(number byte, name string, kind ptrace.SpanKind) ptrace.Span {
		span := spans.AppendEmpty()
		span.SetTraceID(trace)
		span.SetSpanID(pcommon.SpanID{7: number})
		if number > 1 {
			span.SetParentSpanID(pcommon.SpanID{7: 1})
		}
		span.SetName(name)
		span.SetKind(kind)
		span.SetStartTimestamp(pcommon.NewTimestampFromTime(now.Add(time.Duration(number) * time.Millisecond)))
		span.SetEndTimestamp(pcommon.NewTimestampFromTime(now.Add(time.Duration(20-number) * time.Millisecond)))
		return span
	}
	add(1, "checkout", ptrace.SpanKindServer)
	price := add(2, "price", ptrace.SpanKindInternal)
	price.Attributes().PutInt("items", 3)
	event := price.Events().AppendEmpty()
	event.SetName("cache miss")
	event.SetTimestamp(price.StartTimestamp())
	charge := add(3, "charge", ptrace.SpanKindClient)
	charge.Status().SetCode(ptrace.StatusCodeError)
	charge.Status().SetMessage("card declined")
	one := func(yield func(ptrace.Traces) error) error { return yield(traces) }
	return trace.String(), sendOtap(endpoint, options, compressed, one)
}

// otapEvery prints two traces. The second is the first over OTLP.
func otapEvery(service, endpoint string) (string, error) {
	otap, otlp := newNumbered(service, 0xa1), newNumbered(service, 0xa2)
	if err := sendOtap(endpoint, nil, true, otap.batches); err != nil {
		return "", err
	}
	return otap.trace.String() + "\n" + otlp.trace.String(), sendOtlp(endpoint, otlp.batches)
}

func otapLarge(service, endpoint string) (string, error) {
	large := newNumbered(service, 0xa3)
	return large.trace.String(), sendOtap(endpoint, nil, true, large.large)
}
