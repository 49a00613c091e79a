#include "hijack/proc_path.h"

#include <cstring>

namespace cairn::hijack {
namespace {

// The id that `text` of `length` is, 0 if it isn't one.
std::int32_t id_of(const char* text, std::size_t length) {
    std::int32_t id = 0;
    if (length == 0 || length > 9) return 0;
    for (std::size_t i = 0; i < length; ++i) {
        if (text[i] < '0' || text[i] > '9') return 0;
        id = id * 10 + (text[i] - '0');
    }
    return text[0] == '0' ? 0 : id;
}

std::size_t write_id(char* to, std::int32_t id) {
    char digits[12];
    std::size_t n = 0, length = 0;
    for (; n == 0 || id != 0; id /= 10) digits[n++] = static_cast<char>('0' + id % 10);
    while (n > 0) to[length++] = digits[--n];
    return length;
}

bool is(const char* text, std::size_t length, const char* word) {
    return std::strlen(word) == length && std::memcmp(text, word, length) == 0;
}

}  // namespace

bool write_real_path(const char* path, char (&to)[longest_path]) {
    std::size_t size = 0;
    int component = 0;  // 0: proc, 1: who, 2: task, 3: which thread
    bool in_task = false;
    while (*path != '\0') {
        std::size_t slashes = std::strspn(path, "/");
        std::size_t length = std::strcspn(path + slashes, "/");
        if (size + slashes + length + 12 > longest_path) return false;
        std::memcpy(to + size, path, slashes);
        size += slashes;
        path += slashes;
        const std::int32_t id = component == 1 || (component == 3 && in_task) ? id_of(path, length) : 0;
        if (id != 0) {
            size += write_id(to + size, real_id(id));
        } else {
            std::memcpy(to + size, path, length);
            size += length;
        }
        if (component == 2) in_task = is(path, length, "task");
        path += length;
        ++component;
    }
    to[size] = '\0';
    return true;
}

std::uint64_t write_current_path(const char* path, char (&real)[longest_path]) {
    if (!ids_are_virtual() || !write_real_path(path, real)) real[0] = '\0';
    std::uint64_t mark = 14695981039346656037U;  // FNV-1a
    for (const char* at = real[0] != '\0' ? real : path; *at != '\0'; ++at)
        mark = (mark ^ static_cast<unsigned char>(*at)) * 1099511628211U;
    return mark;
}

ssize_t virtual_link(const char* path, char* target, ssize_t length, std::size_t room) {
    if (length <= 0 || !may_have_ids(path) || !ids_are_virtual()) return length;
    const bool process = std::strcmp(path, "/proc/self") == 0;
    if (!process && std::strcmp(path, "/proc/thread-self") != 0) return length;
    char link[64];  // PID or PID/task/TID
    const auto size = static_cast<std::size_t>(length);
    if (size >= sizeof link) return length;
    std::size_t written = 0;
    for (std::size_t i = 0; i < size;) {
        std::size_t digits = 0;
        while (i + digits < size && target[i + digits] >= '0' && target[i + digits] <= '9') ++digits;
        const std::int32_t id = id_of(target + i, digits);
        if (id != 0) {
            written += write_id(link + written, virtual_id(id));
            i += digits;
        } else {
            link[written++] = target[i++];
        }
        if (written > sizeof link - 16) return length;
    }
    if (written > room) written = room;
    std::memcpy(target, link, written);
    return static_cast<ssize_t>(written);
}

}  // namespace cairn::hijack
