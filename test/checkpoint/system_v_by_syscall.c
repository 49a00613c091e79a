// System V calls by libc's function syscall. Linked into system_v.cpp they are what the program calls; preloaded behind the
// hijack library they stand between it and the kernel, as UCX does.
#define _GNU_SOURCE
#include <stdarg.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

int shmget(key_t key, size_t size, int flags) {
    return (int)syscall(SYS_shmget, key, size, flags);
}
void* shmat(int id, const void* at, int flags) {
    return (void*)syscall(SYS_shmat, id, at, flags);
}
int shmctl(int id, int command, struct shmid_ds* about) {
    return (int)syscall(SYS_shmctl, id, command, about);
}
int semget(key_t key, int count, int flags) {
    return (int)syscall(SYS_semget, key, count, flags);
}
int semop(int id, struct sembuf* operations, size_t count) {
    return (int)syscall(SYS_semop, id, operations, count);
}
int semtimedop(int id, struct sembuf* operations, size_t count, const struct timespec* timeout) {
    return (int)syscall(SYS_semtimedop, id, operations, count, timeout);
}
int semctl(int id, int number, int command, ...) {
    va_list list;
    va_start(list, command);
    void* const argument = va_arg(list, void*);
    va_end(list);
    return (int)syscall(SYS_semctl, id, number, command, argument);
}
int msgget(key_t key, int flags) {
    return (int)syscall(SYS_msgget, key, flags);
}
int msgsnd(int id, const void* message, size_t size, int flags) {
    return (int)syscall(SYS_msgsnd, id, message, size, flags);
}
ssize_t msgrcv(int id, void* message, size_t size, long type, int flags) {
    return syscall(SYS_msgrcv, id, message, size, type, flags);
}
int msgctl(int id, int command, struct msqid_ds* about) {
    return (int)syscall(SYS_msgctl, id, command, about);
}
