/* A client that lives for one request: `NAME PORT`. The path contains its name. With more
 * arguments, `short PORT COUNT NAME...` starts COUNT such clients, four at a time, each under the
 * next NAME. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int ask(const char *name, int port)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port) };
    char text[512];
    const char *base = strrchr(name, '/') ? strrchr(name, '/') + 1 : name;
    int length = snprintf(text, sizeof text, "GET /%s/204 HTTP/1.1\r\nHost: x\r\n\r\n", base);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) || write(fd, text, length) != length
        || read(fd, text, sizeof text) <= 0) {
        perror(base);
        return 1;
    }
    return 0;
}

int main(int count, char **arguments)
{
    int port = atoi(arguments[1]);
    if (count == 2)
        return ask(arguments[0], port);
    int clients = atoi(arguments[2]), failed = 0, status;
    for (int at = 0; at < clients + 4; at++) {
        if (at >= 4) {
            wait(&status);
            failed |= status;
        }
        if (at < clients && !fork()) {
            char *name = arguments[3 + at % (count - 3)];
            execl(name, name, arguments[1], (char *)0);
            perror(name);
            _exit(1);
        }
    }
    return failed != 0;
}
