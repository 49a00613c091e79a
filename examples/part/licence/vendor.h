/* What vendor.c, which stands for somebody else's library, offers to programs. */
#ifndef VENDOR_H
#define VENDOR_H

int licence_take(int port);       /* a connection that has a seat, or -1 */
int licence_beat(int connection); /* 0, or -1: the seat is lost */
int licence_connect(int port);    /* a connection, or -1 */
int licence_request(int connection, const char* request, char* answer, int size);

#endif
