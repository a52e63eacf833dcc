// cart: a customer's cart. Go's net/http and go-redis. It asks the catalog for prices.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

type line struct {
	Product    int `json:"product"`
	Quantity   int `json:"quantity"`
	PriceCents int `json:"price_cents"`
}

var (
	store = redis.NewClient(&redis.Options{Addr: os.Getenv("REDIS_ADDRESS"), Protocol: 2, PoolSize: 32})
	web   = &http.Client{
		Timeout:   10 * time.Second,
		Transport: &http.Transport{MaxIdleConnsPerHost: 32, IdleConnTimeout: 5 * time.Minute},
	}
	errNoProduct = errors.New("no such product")
)

// price asks the catalog.
func price(ctx context.Context, product int) (int, error) {
	url := fmt.Sprintf("http://%s/products/%d", os.Getenv("CATALOG_ADDRESS"), product)
	call, done := made(ctx, "http", "GET "+url)
	defer done()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, inURL(url, call), nil)
	if err != nil {
		return 0, err
	}
	response, err := web.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	var found struct {
		PriceCents int `json:"price_cents"`
	}
	if err := json.NewDecoder(response.Body).Decode(&found); err != nil {
		return 0, err
	}
	if response.StatusCode != http.StatusOK {
		return 0, errNoProduct
	}
	return found.PriceCents, nil
}

func add(ctx context.Context, customer string, wanted line) error {
	cents, err := price(ctx, wanted.Product)
	if err != nil {
		return err
	}
	key := "cart:" + customer
	field := fmt.Sprintf("%d:%d", wanted.Product, cents)
	return inRedis(ctx, "HINCRBY", func(pipe redis.Pipeliner) {
		pipe.HIncrBy(ctx, key, field, int64(wanted.Quantity))
		pipe.Expire(ctx, key, time.Hour)
	})
}

func read(ctx context.Context, customer string) ([]line, error) {
	var found *redis.MapStringStringCmd
	err := inRedis(ctx, "HGETALL", func(pipe redis.Pipeliner) {
		found = pipe.HGetAll(ctx, "cart:"+customer)
	})
	lines := []line{}
	for field, quantity := range found.Val() {
		product, cents, _ := strings.Cut(field, ":")
		lines = append(lines, line{number(product), number(quantity), number(cents)})
	}
	return lines, err
}

func empty(ctx context.Context, customer string) error {
	return inRedis(ctx, "DEL", func(pipe redis.Pipeliner) { pipe.Del(ctx, "cart:"+customer) })
}

func carts(w http.ResponseWriter, r *http.Request) {
	ctx := withServing(r.Context(), r.URL.Query().Get("call"))
	customer := strings.TrimPrefix(r.URL.Path, "/carts/")
	var err error
	switch r.Method {
	case http.MethodPost:
		var wanted line
		if err = json.NewDecoder(r.Body).Decode(&wanted); err == nil {
			err = add(ctx, customer, wanted)
		}
	case http.MethodDelete:
		err = empty(ctx, customer)
	}
	if err != nil {
		status := http.StatusInternalServerError
		if errors.Is(err, errNoProduct) {
			status = http.StatusNotFound
		}
		answer(w, status, map[string]string{"error": err.Error()})
		return
	}
	if r.Method == http.MethodDelete {
		answer(w, http.StatusOK, map[string]bool{"empty": true})
		return
	}
	lines, err := read(ctx, customer)
	if err != nil {
		answer(w, http.StatusInternalServerError, map[string]string{"error": err.Error()})
		return
	}
	answer(w, http.StatusOK, map[string]any{"customer": customer, "lines": lines})
}

func answer(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value)
}

func number(text string) int {
	value, _ := strconv.Atoi(text)
	return value
}

func main() {
	http.HandleFunc("/carts/", carts)
	http.HandleFunc("/health", func(w http.ResponseWriter, r *http.Request) {
		answer(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), nil))
}
