// Ids that come and go through descriptors: owners of sockets and terminals, holders of locks.
#include <fcntl.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdarg>
#include <cstring>

#include "hijack/ids.h"
#include "hijack/next.h"
#include "hijack/raw.h"
#include "hijack/siginfo.h"

using namespace cairn::hijack;

namespace {

template <class Control>
int translated_fcntl(int command, void* argument, Control control) {
    switch (command) {
        case F_SETOWN: {
            const auto owner = static_cast<int>(reinterpret_cast<long>(argument));
            return with_id(
                [&] { return real_pid_or_group(owner); },
                [&](int real) { return control(reinterpret_cast<void*>(static_cast<long>(real))); });
        }
        case F_GETOWN: {
            // libc's own F_GETOWN asks by F_GETOWN_EX, so a group of small number isn't taken for an error.
            return virtual_pid_or_group(control(argument));
        }
        case F_SETOWN_EX: {
            if (argument == nullptr || !ids_are_virtual()) {  // the kernel looks at what may be no address
                const int result = control(argument);
                if (argument == nullptr || result == 0 || !ids_are_virtual()) return result;
            }
            struct f_owner_ex owner = *static_cast<struct f_owner_ex*>(argument);
            const pid_t wanted = owner.pid;
            return with_id([&] { return real_id(wanted); },
                           [&](pid_t real) {
                               owner.pid = real;
                               return control(&owner);
                           });
        }
        case F_GETOWN_EX: {
            const int result = control(argument);
            auto* owner = static_cast<struct f_owner_ex*>(argument);
            if (result == 0) owner->pid = virtual_id(owner->pid);
            return result;
        }
        case F_GETLK: {  // F_GETLK64 is the same on x86-64; a lock of another's description has l_pid -1
            const int result = control(argument);
            auto* lock = static_cast<struct flock*>(argument);
            if (result == 0 && lock->l_type != F_UNLCK) lock->l_pid = virtual_id(lock->l_pid);
            return result;
        }
        default:
            return control(argument);
    }
}

// Is what was read of a signalfd? Told from the data first, as most reads aren't, then by asking the kernel.
bool from_signalfd(int fd, const void* data, ssize_t size) {
    constexpr ssize_t record = sizeof(struct signalfd_siginfo);
    struct signalfd_siginfo first;
    if (size < record || size % record != 0) return false;
    std::memcpy(&first, data, sizeof first);
    if (first.ssi_signo == 0 || first.ssi_signo > 64) return false;
    char link[40] = "/proc/self/fd/";
    char target[32];
    std::size_t end = std::strlen(link);
    char digits[12];
    int n = 0;
    for (unsigned v = static_cast<unsigned>(fd); n == 0 || v != 0; v /= 10)
        digits[n++] = static_cast<char>('0' + v % 10);
    while (n > 0) link[end++] = digits[--n];
    link[end] = '\0';
    constexpr char wanted[] = "anon_inode:[signalfd]";
    return raw::call(SYS_readlink, link, target, sizeof target) == sizeof wanted - 1 &&
           std::memcmp(target, wanted, sizeof wanted - 1) == 0;
}

void translate_read(int fd, void* data, ssize_t size) {
    if (size <= 0 || !ids_are_virtual() || !from_signalfd(fd, data, size)) return;
    auto* at = static_cast<char*>(data);
    for (struct signalfd_siginfo one; size > 0; at += sizeof one, size -= static_cast<ssize_t>(sizeof one)) {
        std::memcpy(&one, at, sizeof one);
        if (!names_sender(static_cast<int>(one.ssi_signo), one.ssi_code)) continue;
        one.ssi_pid = static_cast<std::uint32_t>(virtual_id(static_cast<pid_t>(one.ssi_pid)));
        std::memcpy(at, &one, sizeof one);
    }
}

}  // namespace

// Not a declaration but a definition of libc's: <fcntl.h> may call it fcntl64 (_FILE_OFFSET_BITS); here it
// doesn't.
CAIRN_EXPORT int fcntl(int fd, int command, ...) {
    va_list list;
    va_start(list, command);
    auto* argument = va_arg(list, void*);
    va_end(list);
    return translated_fcntl(command, argument,
                            [=](void* changed) { return next<"fcntl">(&::fcntl)(fd, command, changed); });
}

CAIRN_EXPORT int fcntl64(int fd, int command, ...) {
    va_list list;
    va_start(list, command);
    auto* argument = va_arg(list, void*);
    va_end(list);
    return translated_fcntl(command, argument,
                            [=](void* changed) { return next<"fcntl64">(&::fcntl64)(fd, command, changed); });
}

CAIRN_EXPORT int ioctl(int fd, unsigned long request, ...) noexcept {
    va_list list;
    va_start(list, request);
    auto* argument = va_arg(list, void*);
    va_end(list);
    const auto real = next<"ioctl">(&::ioctl);
    if (argument == nullptr || !ids_are_virtual()) {
        const int result = real(fd, request, argument);
        const bool gives_one =
            argument != nullptr && (request == TIOCSPGRP || request == FIOSETOWN || request == SIOCSPGRP);
        if (result >= 0 || !gives_one || !ids_are_virtual()) return result;
    }
    auto* id = static_cast<pid_t*>(argument);
    switch (request) {
        case TIOCGPGRP:
        case TIOCGSID:
        case FIOGETOWN:
        case SIOCGPGRP: {
            const int result = real(fd, request, argument);
            if (result == 0) *id = virtual_pid_or_group(*id);
            return result;
        }
        case TIOCSPGRP:
        case FIOSETOWN:
        case SIOCSPGRP:
            return with_id([&] { return real_pid_or_group(*id); },
                           [&](pid_t translated) { return real(fd, request, &translated); });
        default:
            return real(fd, request, argument);
    }
}

CAIRN_EXPORT int getsockopt(int fd, int level, int option, void* value, socklen_t* size) noexcept {
    const int result = next<"getsockopt">(&::getsockopt)(fd, level, option, value, size);
    if (result == 0 && level == SOL_SOCKET && option == SO_PEERCRED && *size >= sizeof(pid_t) &&
        ids_are_virtual()) {
        auto* credentials = static_cast<struct ucred*>(value);
        credentials->pid = virtual_id(credentials->pid);
    }
    return result;
}

extern "C" ssize_t __read_chk(int, void*, std::size_t, std::size_t);

CAIRN_EXPORT ssize_t read(int fd, void* data, std::size_t size) {
    const ssize_t result = next<"read">(&::read)(fd, data, size);
    translate_read(fd, data, result);
    return result;
}

CAIRN_EXPORT ssize_t __read_chk(int fd, void* data, std::size_t size, std::size_t room) {
    const ssize_t result = next<"__read_chk">(&::__read_chk)(fd, data, size, room);
    translate_read(fd, data, result);
    return result;
}
