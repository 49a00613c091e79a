/* Stands for a library of somebody else's that keeps a licence: a seat at a server, which is given back when the
   connection ends. cc -shared -fPIC vendor.c -o liblicence.so */
#include "vendor.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int licence_request(int connection, const char *request, char *answer, int size) {
    char byte;
    int length = 0;
    if (send(connection, request, strlen(request), MSG_NOSIGNAL) != (ssize_t)strlen(request)) return -1;
    while (recv(connection, &byte, 1, 0) == 1) {
        if (byte == '\n') {
            answer[length] = '\0';
            return strncmp(answer, "OK", 2) == 0 ? 0 : -1;
        }
        if (length < size - 1) answer[length++] = byte;
    }
    return -1;
}

int licence_connect(int port) {
    struct sockaddr_in server = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
    server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int connection = socket(AF_INET, SOCK_STREAM, 0);
    if (connection >= 0 && connect(connection, (struct sockaddr *)&server, sizeof server) == 0) return connection;
    if (connection >= 0) close(connection);
    return -1;
}

int licence_take(int port) {
    char answer[100];
    const int connection = licence_connect(port);
    if (connection < 0 || licence_request(connection, "TAKE\n", answer, sizeof answer) == 0) return connection;
    close(connection);
    return -1;
}

int licence_beat(int connection) {
    char answer[100];
    return licence_request(connection, "BEAT\n", answer, sizeof answer);
}
