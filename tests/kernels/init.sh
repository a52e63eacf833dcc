#!/bin/busybox sh
# The only program of the virtual machine. HOOK, TESTED_HOOK, ROUNDS and FILE_BYTES come from the
# kernel's command line.
/bin/busybox --install -s /bin
export PATH=/bin:/usr/bin:/usr/sbin:/sbin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /tmp
mount -t tmpfs tmpfs /data
mount -t tracefs tracefs /sys/kernel/tracing
ip link set lo up
hostname kernels

openssl req -x509 -newkey rsa:2048 -nodes -keyout /tmp/key.pem -out /tmp/cert.pem -days 3 -subj /CN=localhost 2> /dev/null
nginx -p /tmp -c /etc/nginx.conf &
redis-server --port 6379 --unixsocket /tmp/redis.sock --save '' > /dev/null &
head -c "$FILE_BYTES" /dev/zero > /tmp/file
spanwise server --data /data/spans --zipkin off --jaeger-grpc off --jaeger-http off --jaeger-udp-compact off \
    --jaeger-udp-binary off --http 127.0.0.1:8000 > /tmp/server.log 2>&1 &
# Waits until it answers. An emulated machine is slow.
for second in $(seq 60); do
    curl -sf -o /dev/null http://127.0.0.1:8000/api/v1/status && break
    sleep 1
done

spanwise agent --hook "$HOOK" > /tmp/agent.log 2>&1 &
agent=$!
for second in $(seq 60); do
    grep -q 'watches this machine' /tmp/agent.log && break
    kill -0 $agent 2> /dev/null || break
    sleep 1
done
sleep 5 # TLS libraries are found
cat /tmp/agent.log

begin=$(date +%s)
for round in $(seq "$ROUNDS"); do
    curl -s -o /dev/null http://127.0.0.1:8080/plain
    curl -s -o /dev/null http://127.0.0.1:8080/bad
    curl -s -o /dev/null http://127.0.0.1:8080/up
    curl -s -o /dev/null http://127.0.0.1:8080/file
    curl -sk -o /dev/null https://127.0.0.1:8443/tls
    redis-cli set key "$round" > /dev/null
    redis-cli get key > /dev/null
    redis-cli -s /tmp/redis.sock incr count > /dev/null
done
sleep 5
curl -s -H 'Content-Type: text/plain' -H 'Spanwise-Request: 1' http://127.0.0.1:8000/api/v1/sql -d \
    "SELECT service, kind, operation, status, count(*), min(response_bytes) FROM spans WHERE start_unix_nano >= ${begin}000000000 GROUP BY 1, 2, 3, 4"
echo

kill $agent
wait $agent
SPANWISE_TEST_HOOKS=$TESTED_HOOK kernel-tests --test-threads 1
poweroff -f
