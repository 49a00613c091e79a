#include "hijack/let_go.h"

#include <fcntl.h>
#include <time.h>

#include <cstddef>
#include <cstring>

#include "hijack/raw.h"

namespace cairn::hijack {
namespace {

// The beginning of /proc/ID/NAME, as a string; "" if it can't be read.
template <std::size_t size>
void read_of(pid_t id, const char* name, char (&text)[size]) {
    char path[64] = "/proc/";
    char digits[12];
    std::size_t count = 0;
    for (auto left = static_cast<unsigned>(id); count == 0 || left != 0; left /= 10)
        digits[count++] = static_cast<char>('0' + left % 10);
    char* to = path + std::strlen(path);
    while (count > 0) *to++ = digits[--count];
    std::strcpy(to, name);
    text[0] = '\0';
    const long fd = raw::call(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    if (raw::failed(fd)) return;
    const long got = raw::call(SYS_read, fd, text, size - 1);
    raw::call(SYS_close, fd);
    text[got > 0 ? got : 0] = '\0';
}

bool begins_with(const char* text, const char* what) {
    return std::strncmp(text, what, std::strlen(what)) == 0;
}

}  // namespace

HeldBy who_holds(pid_t thread) {
    constexpr const char* label = "\nTracerPid:\t";
    char status[1024], name[32];
    read_of(thread, "/status", status);
    const char* at = std::strstr(status, label);
    if (at == nullptr) return HeldBy::another;  // nobody says
    pid_t tracer = 0;
    for (at += std::strlen(label); *at >= '0' && *at <= '9'; ++at) tracer = tracer * 10 + (*at - '0');
    if (tracer == 0) return HeldBy::nobody;
    read_of(tracer, "/comm", name);
    const bool is_tool = begins_with(name, "cairn-capture") || begins_with(name, "cairn-restart");
    return is_tool ? HeldBy::a_tool : HeldBy::another;
}

void wait_for_a_moment() {
    const timespec moment{0, 1'000'000};
    raw::call(SYS_nanosleep, &moment, nullptr);
}

}  // namespace cairn::hijack
