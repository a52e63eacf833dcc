#!/usr/bin/env bash
# Installs missing packages for building and testing on Debian and its derivatives. Elsewhere it
# prints what to install.
set -euo pipefail
cd "$(dirname "$0")/.."

# The purpose: `all` (the default), `cluster` for the tests of a ClickHouse cluster, `kernels` for
# virtual machines, `jvm` for the tests of its agent, `lttng` for its traces, `native` for programs in C, `prometheus` for a scraper, `faults`, `soak`, `accuracy` and `end-to-end` for benchmarks,
# anything else for building only.
for=${SPANWISE_SETUP:-all}
stamp=target/.setup-$for-done
[ -e "$stamp" ] && [ "$stamp" -nt scripts/setup.sh ] && exit 0

# command (or a file) -> Debian package
needs=(
    clang:clang
    make:make
    autoconf:autoconf
    automake:automake
    autopoint:autopoint
    gettext:gettext
    libtoolize:libtool
    flex:flex
    bison:bison
    gawk:gawk
    pkg-config:pkg-config
    python3:python3
    gcc:gcc
    curl:curl
)
# The tests run real programs. The JDK and Maven also build the helper for Java.
if [ "$for" = all ]; then
    needs+=(
        chromium:chromium
        nginx:nginx-light
        redis-server:redis-server
        /usr/lib/postgresql:postgresql
        psql:postgresql-client
        openssl:openssl
        wget:wget
        javac:default-jdk-headless
        mvn:maven
        wrk:wrk
        wasm-ld:lld
        ip:iproute2
        setpriv:util-linux
    )
fi
if [ "$for" = cluster ]; then
    needs+=(
        java:default-jre-headless
        /usr/share/java/zookeeper.jar:zookeeper
    )
fi
if [ "$for" = native ]; then
    needs+=(
        cmake:cmake
        /usr/include/zmq.h:libzmq3-dev
    )
fi
if [ "$for" = jvm ]; then
    needs+=(
        javac:default-jdk-headless
        mvn:maven
        redis-server:redis-server
        /usr/lib/rabbitmq/bin/rabbitmq-server:rabbitmq-server
    )
fi
if [ "$for" = lttng ]; then
    needs+=(
        lttng:lttng-tools
        babeltrace2:babeltrace2
        /usr/include/lttng/tracepoint.h:liblttng-ust-dev
    )
fi
if [ "$for" = prometheus ]; then
    needs+=(
        prometheus:prometheus
    )
fi
if [ "$for" = faults ]; then
    needs+=(
        nft:nftables
    )
fi
if [ "$for" = soak ]; then
    needs+=(
        nginx:nginx-light
        openssl:openssl
        redis-server:redis-server
        memcached:memcached
        /usr/lib/postgresql:postgresql
        /usr/sbin/mariadbd:mariadb-server-core
        my_print_defaults:mariadb-client-core
        dnsmasq:dnsmasq-base
        h2load:nghttp2-client
        sysbench:sysbench
        dnsperf:dnsperf
    )
fi
if [ "$for" = accuracy ]; then
    needs+=(
        nginx:nginx-light
        haproxy:haproxy
        openssl:openssl
        javac:default-jdk-headless
        mvn:maven
        go:golang-go
        puma:puma
        redis-server:redis-server
    )
fi
if [ "$for" = end-to-end ]; then
    needs+=(
        wrk:wrk
        javac:default-jdk-headless
        mvn:maven
        /usr/lib/postgresql:postgresql
    )
fi
if [ "$for" = overhead ]; then
    needs+=(
        ab:apache2-utils
        javac:default-jdk-headless
        mvn:maven
    )
fi
if [ "$for" = kernels ]; then
    needs+=(
        qemu-system-x86_64:qemu-system-x86
        busybox:busybox-static
        cpio:cpio
        nginx:nginx-light
        redis-server:redis-server
        openssl:openssl
    )
fi
missing=()
for need in "${needs[@]}"; do
    what=${need%%:*}
    case $what in
        /*) [ -e "$what" ] || missing+=("${need##*:}") ;;
        *) command -v "$what" >/dev/null || missing+=("${need##*:}") ;;
    esac
done
if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
    missing+=(python3-venv)
fi
if [ ${#missing[@]} -gt 0 ]; then
    if ! command -v apt-get >/dev/null; then
        echo "please install: ${missing[*]}" >&2
        exit 1
    fi
    sudo=; [ "$(id -u)" = 0 ] || sudo=sudo
    echo "installing: ${missing[*]}"
    $sudo apt-get update -qq
    # Installing a server must not start it.
    policy=/usr/sbin/policy-rc.d
    made_policy=
    if [ ! -e $policy ] && [ -z "$sudo" ]; then
        printf '#!/bin/sh\nexit 101\n' >$policy
        chmod +x $policy
        made_policy=1
        trap '[ -z "$made_policy" ] || rm -f /usr/sbin/policy-rc.d' EXIT
    fi
    DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends \
        "${missing[@]}" >/dev/null
fi
if ! command -v cargo >/dev/null; then
    echo "cargo is missing: install Rust with rustup (the version is in rust-toolchain.toml)" >&2
    exit 1
fi
if ! command -v npm >/dev/null; then
    echo "npm is missing: install Node.js 20 or newer" >&2
    exit 1
fi
mkdir -p target
touch "$stamp"
