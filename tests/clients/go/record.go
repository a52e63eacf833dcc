// Records the reference producer's output for the spans, for tests that run without Go: go run .
// record DIRECTORY
package main

import (
	"encoding/binary"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"google.golang.org/protobuf/proto"
)

// record writes, for each batch, the spans as an ExportTraceServiceRequest and then as a
// BatchArrowRecords, each after its length in four bytes; everything compressed with zstd.
func record(directory string) error {
	for name, compressed := range map[string]bool{"plain.otap.zst": false, "compressed.otap.zst": true} {
		producer, headers := otapProducer(compressed), newHeaderEncoder()
		var file []byte
		add := func(bytes []byte) {
			file = binary.LittleEndian.AppendUint32(file, uint32(len(bytes)))
			file = append(file, bytes...)
		}
		err := newNumbered("recorded", 1).batches(func(traces ptrace.Traces) error {
			otlp, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(traces)
			if err != nil {
				return err
			}
			batch, err := batchOf(producer, traces, headers)
			if err != nil {
				return err
			}
			otap, err := proto.Marshal(batch)
			add(otlp)
			add(otap)
			return err
		})
		if err != nil {
			return err
		}
		encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(directory, name), encoder.EncodeAll(file, nil), 0o644); err != nil {
			return err
		}
	}
	return nil
}
