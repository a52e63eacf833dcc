package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// The ground truth for tests; see shopkit/calls.py. Off unless SHOP_TRUTH is set.

type servingKey struct{}

var (
	truthDirectory = os.Getenv("SHOP_TRUTH")
	truthLock      sync.Mutex
	truthFile      *os.File
)

func withServing(ctx context.Context, call string) context.Context {
	return context.WithValue(ctx, servingKey{}, call)
}

// made adds an id to a call. The returned function records the call when it is over.
func made(ctx context.Context, kind, target string) (string, func()) {
	if truthDirectory == "" {
		return "", func() {}
	}
	var random [8]byte
	_, _ = rand.Read(random[:])
	call, start := hex.EncodeToString(random[:]), time.Now().UnixNano()
	return call, func() {
		var serving any
		if id, _ := ctx.Value(servingKey{}).(string); id != "" {
			serving = id
		}
		note(map[string]any{
			"service": os.Getenv("SHOP_SERVICE"), "serving": serving, "made": call, "kind": kind,
			"target": target, "start_unix_nano": start, "end_unix_nano": time.Now().UnixNano(),
		})
	}
}

func note(record map[string]any) {
	text, _ := json.Marshal(record)
	truthLock.Lock()
	defer truthLock.Unlock()
	if truthFile == nil {
		path := fmt.Sprintf("%s/%s-%d.jsonl", truthDirectory, os.Getenv("SHOP_SERVICE"), os.Getpid())
		file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			panic(err)
		}
		truthFile = file
	}
	_, _ = truthFile.Write(append(text, '\n'))
}

// inURL adds the call's id to the query string.
func inURL(url, call string) string {
	if call == "" {
		return url
	}
	if strings.Contains(url, "?") {
		return url + "&call=" + call
	}
	return url + "?call=" + call
}

// inRedis sends the commands that `fill` queues in one pipeline. The data's own keys cannot contain
// a call id, so in tests an additional command with such a key comes first.
func inRedis(ctx context.Context, target string, fill func(redis.Pipeliner)) error {
	call, done := made(ctx, "redis", target)
	defer done()
	pipe := store.Pipeline()
	if call != "" {
		pipe.Exists(ctx, "call:"+call)
	}
	fill(pipe)
	_, err := pipe.Exec(ctx)
	return err
}
