// Spans with all possible contents, as batches of one stream.
package main

import (
	"encoding/binary"
	"fmt"
	"math"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// An arbitrary time, the same in each run.
const began = uint64(1_760_000_000_000_000_000)

// numbered generates the spans of one run. Ids count up. Their first byte distinguishes the traces
// of runs.
type numbered struct {
	service string
	trace   pcommon.TraceID
	spans   uint64
}

func newNumbered(service string, run byte) *numbered {
	return &numbered{service: service, trace: pcommon.TraceID{0: run, 15: 1}}
}

func (n *numbered) resource(traces ptrace.Traces, instance int) ptrace.ResourceSpans {
	resource := traces.ResourceSpans().AppendEmpty()
	resource.SetSchemaUrl("https://opentelemetry.io/schemas/1.38.0")
	resource.Resource().Attributes().PutStr("service.name", n.service)
	resource.Resource().Attributes().PutStr("service.instance.id", fmt.Sprint("instance-", instance))
	resource.Resource().Attributes().PutInt("process.pid", int64(100+instance))
	resource.Resource().Attributes().PutEmptySlice("process.command_args").AppendEmpty().SetStr("--verbose")
	return resource
}

func scope(resource ptrace.ResourceSpans, name string) ptrace.ScopeSpans {
	scope := resource.ScopeSpans().AppendEmpty()
	scope.Scope().SetName(name)
	scope.Scope().SetVersion("1.2." + fmt.Sprint(len(name)))
	scope.Scope().Attributes().PutBool("library.is_test", true)
	return scope
}

func (n *numbered) span(scope ptrace.ScopeSpans, name string) ptrace.Span {
	n.spans++
	span := scope.Spans().AppendEmpty()
	span.SetTraceID(n.trace)
	span.SetSpanID(n.id(n.spans))
	if n.spans > 1 {
		span.SetParentSpanID(n.id(1))
	}
	span.SetName(name)
	span.SetKind(ptrace.SpanKind(n.spans % 6))
	span.SetStartTimestamp(pcommon.Timestamp(began + n.spans*1_000_000))
	span.SetEndTimestamp(pcommon.Timestamp(began + n.spans*1_000_000 + 500_000 + n.spans%7))
	return span
}

func (n *numbered) id(number uint64) (id pcommon.SpanID) {
	binary.BigEndian.PutUint64(id[:], number)
	return id
}

// everyType adds one attribute of each type. Variable values depend on the number.
func everyType(attributes pcommon.Map, number int) {
	attributes.PutStr("a.text", fmt.Sprint("text ", number%3))
	attributes.PutStr("a.empty", "")
	attributes.PutInt("a.int", int64(number%4)-2)
	attributes.PutDouble("a.double", float64(number%5)/4)
	attributes.PutBool("a.bool", number%2 == 0)
	attributes.PutEmptyBytes("a.bytes").FromRaw([]byte{0, 255, byte(number % 3)})
	items := attributes.PutEmptySlice("a.array")
	items.AppendEmpty().SetInt(math.MinInt64)
	items.AppendEmpty().SetStr("two")
	items.AppendEmpty().SetEmptySlice().AppendEmpty().SetDouble(math.Inf(-1))
	items.AppendEmpty()
	pairs := attributes.PutEmptyMap("a.map")
	pairs.PutStr("text", "value")
	pairs.PutInt("large", math.MaxInt64)
	pairs.PutEmptyBytes("bytes").FromRaw([]byte{1, 2, 3})
	pairs.PutEmptyMap("map").PutBool("yes", true)
	pairs.PutDouble("one", 1)
}

// batches have shapes that make a stream's dictionaries grow and restart with wider keys, and that
// add new columns.
func (n *numbered) batches(yield func(ptrace.Traces) error) error {
	for _, batch := range []func(ptrace.Traces){
		n.plain, n.attributes, n.attributes, n.eventsAndLinks, n.eventsAndLinks, n.manyNames, n.nothing, n.attributes,
	} {
		traces := ptrace.NewTraces()
		batch(traces)
		if err := yield(traces); err != nil {
			return err
		}
	}
	return nil
}

func (n *numbered) plain(traces ptrace.Traces) {
	scope := scope(n.resource(traces, 1), "plain")
	for range 3 {
		n.span(scope, "GET /")
	}
}

func (n *numbered) attributes(traces ptrace.Traces) {
	for instance := range 3 {
		resource := n.resource(traces, instance)
		for _, name := range []string{"http", "database"} {
			scope := scope(resource, name)
			for number := range 4 {
				span := n.span(scope, fmt.Sprint("GET /", number))
				everyType(span.Attributes(), number)
				span.Attributes().PutStr("http.request.method", "GET")
				span.Attributes().PutInt("http.response.status_code", int64(200+100*number))
				span.Attributes().PutStr("network.peer.address", fmt.Sprint("10.0.0.", number))
				span.Attributes().PutStr("app.request", fmt.Sprint("request ", n.spans))
			}
		}
	}
	// NaN is equal as bits but not as a number, and for the two zeros it is the reverse.
	scope := scope(n.resource(traces, 1), "numbers")
	for _, number := range []float64{math.NaN(), math.NaN(), 0, math.Copysign(0, -1), 0, math.Inf(1), math.Inf(1)} {
		n.span(scope, "number").Attributes().PutDouble("a.double", number)
	}
}

func (n *numbered) eventsAndLinks(traces ptrace.Traces) {
	resource := n.resource(traces, 7)
	resource.Resource().SetDroppedAttributesCount(3)
	scope := scope(resource, "events")
	for number := range 6 {
		span := n.span(scope, "work")
		span.TraceState().FromRaw(fmt.Sprint("vendor=", number%2))
		span.SetFlags(0x101)
		span.SetDroppedAttributesCount(uint32(number))
		span.SetDroppedEventsCount(uint32(number % 2))
		span.SetDroppedLinksCount(uint32(number % 3))
		if number%2 == 1 {
			span.Status().SetCode(ptrace.StatusCodeError)
			span.Status().SetMessage(fmt.Sprint("failed ", number))
		}
		for at, name := range []string{"begin", "exception", "", "begin", "end"} {
			event := span.Events().AppendEmpty()
			event.SetName(name)
			event.SetTimestamp(span.StartTimestamp() + pcommon.Timestamp(at*1000))
			if name == "exception" {
				event.Attributes().PutStr("exception.type", "Timeout")
				event.SetDroppedAttributesCount(2)
			}
			if name == "end" {
				everyType(event.Attributes(), number)
			}
		}
		for to := range number {
			link := span.Links().AppendEmpty()
			link.SetTraceID(pcommon.TraceID{0: 9, 15: byte(1 + to/2)})
			link.SetSpanID(n.id(uint64(1000 + to)))
			if to%2 == 1 {
				link.TraceState().FromRaw("linked=1")
				everyType(link.Attributes(), to)
				link.SetDroppedAttributesCount(1)
			}
		}
	}
}

// manyNames has more than 256 names and keys, which is the initial capacity of a dictionary.
func (n *numbered) manyNames(traces ptrace.Traces) {
	scope := scope(n.resource(traces, 2), "names")
	for number := range 300 {
		span := n.span(scope, fmt.Sprint("operation ", number))
		span.Attributes().PutInt(fmt.Sprint("key.", number), int64(number))
	}
}

// nothing has minimal spans.
func (n *numbered) nothing(traces ptrace.Traces) {
	bare := traces.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty()
	for range 3 {
		span := n.span(bare, "")
		span.SetKind(ptrace.SpanKindUnspecified)
		span.SetEndTimestamp(0)
	}
	backwards := n.span(bare, "backwards")
	backwards.SetEndTimestamp(backwards.StartTimestamp() - 1000)
}

// large has batches with more texts than a dictionary of 65,536 can hold.
func (n *numbered) large(yield func(ptrace.Traces) error) error {
	for range 12 {
		traces := ptrace.NewTraces()
		scope := scope(n.resource(traces, 3), "large")
		for range 6000 {
			n.span(scope, "large").Attributes().PutStr("app.request", fmt.Sprint("request ", n.spans))
		}
		if err := yield(traces); err != nil {
			return err
		}
	}
	return nil
}
