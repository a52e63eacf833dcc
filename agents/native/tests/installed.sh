#!/bin/sh
# Installs the library, and builds programs with it as others do: by pkg-config, shared and static,
# and by CMake. Each must run.
set -eu
native=$1
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
make -s -C "$native" install PREFIX="$here/usr" BUILD="$here/build"
cat >"$here/shop.c" <<'C'
#include <spanwise.h>
SW_SITE(handle, "handle request", SW_SERVER, SW_INFO);
int main(int count, char **words) {
    struct sw_options options = { .size = sizeof options, .dir = words[count - 1], .service_name = "shop" };
    if (sw_abi() != SW_ABI || sw_start(&options)) return 1;
    sw_end(sw_begin(&handle));
    return -sw_stop();
}
C
export PKG_CONFIG_PATH="$here/usr/lib/pkgconfig"
cc "$here/shop.c" $(pkg-config --cflags --libs spanwise) -o "$here/shared"
cc "$here/shop.c" $(pkg-config --cflags spanwise) "$here/usr/lib/libspanwise.a" -pthread -ldl -o "$here/static"
LD_LIBRARY_PATH="$here/usr/lib" "$here/shared" "$here/trace"
"$here/static" "$here/trace"
cat >"$here/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.13)
project(shop C)
find_package(spanwise CONFIG REQUIRED)
add_executable(by_shared shop.c)
target_link_libraries(by_shared spanwise::spanwise)
add_executable(by_static shop.c)
target_link_libraries(by_static spanwise::static)
CMAKE
cmake -S "$here" -B "$here/cmake" -DCMAKE_PREFIX_PATH="$here/usr" >/dev/null
cmake --build "$here/cmake" >/dev/null
"$here/cmake/by_shared" "$here/trace"
"$here/cmake/by_static" "$here/trace"
[ "$(ls "$here/trace" | grep -c '\.process$')" = 4 ]
echo "installed: ok"
