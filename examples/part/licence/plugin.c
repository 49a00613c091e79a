/* A plugin for cairn: `cairn launch --plugin plugin.so licensed ...` keeps the licence of a program over a restart, though
   neither the program nor its licence's library knows of cairn. cc -shared -fPIC plugin.c -lcairn-part -o plugin.so

   It stands in front of the library's functions, so that no request is under way at a checkpoint. Before a checkpoint it
   asks the server to hold the seat; in the process that comes back it takes up that seat by a new connection, which it
   puts in the place of the old one, that the restart couldn't bring back. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <cairn.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "vendor.h"

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static int licence = -1, server_port;
static char seat[64];

int licence_take(int port) {
    int (*const next)(int) = (int (*)(int))dlsym(RTLD_NEXT, "licence_take");
    pthread_mutex_lock(&gate);
    licence = next(port);
    server_port = port;
    pthread_mutex_unlock(&gate);
    return licence;
}

int licence_beat(int connection) {
    int (*const next)(int) = (int (*)(int))dlsym(RTLD_NEXT, "licence_beat");
    pthread_mutex_lock(&gate);
    const int result = next(connection);
    pthread_mutex_unlock(&gate);
    return result;
}

/* The library's functions are there if the program has loaded it; the plugin is in every program that it executes. */
static int request(int connection, const char *text, char *answer, int size) {
    int (*const call)(int, const char *, char *, int) =
        (int (*)(int, const char *, char *, int))dlsym(RTLD_DEFAULT, "licence_request");
    return call(connection, text, answer, size);
}

static int before(void *data) {
    (void)data;
    pthread_mutex_lock(&gate);
    char answer[100];
    if (licence < 0) return 0;
    if (request(licence, "HOLD\n", answer, sizeof answer) == 0 && sscanf(answer, "OK %63s", seat) == 1) return 0;
    cairn_refuse("the licence server holds no seat");
    return 1;
}

static void after(int what, void *data) {
    (void)what, (void)data;
    pthread_mutex_unlock(&gate);
}

static void restarted(void *data) {
    (void)data;
    int (*const connect_to)(int) = (int (*)(int))dlsym(RTLD_DEFAULT, "licence_connect");
    char text[100], answer[100];
    const int again = licence < 0 ? -1 : connect_to(server_port);
    snprintf(text, sizeof text, "RESUME %s\n", seat);
    if (again >= 0 && request(again, text, answer, sizeof answer) == 0) dup2(again, licence);
    if (again >= 0) close(again);
    pthread_mutex_unlock(&gate);
}

__attribute__((constructor)) static void begin(void) {
    static const struct cairn_callbacks hooks = {before, after, restarted, NULL};
    if (dlsym(RTLD_DEFAULT, "licence_request") != NULL) cairn_hooks(&hooks);
}
