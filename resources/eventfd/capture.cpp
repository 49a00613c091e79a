// eventfd(2): /proc/PID/fdinfo/N tells its count, and since Linux 6.5 whether it is a semaphore (proc(5)).
#include "resources/eventfd/capture.h"

#include <poll.h>
#include <unistd.h>

#include "resources/capture/guard.h"
#include "resources/capture/table.h"

namespace cairn::capture {
namespace {

bool may(int fd, short what) {
    pollfd asked{fd, what, 0};
    return ::poll(&asked, 1, 0) == 1 && (asked.revents & what) != 0;
}

bool add(int fd, std::uint64_t count) {
    return ::write(fd, &count, sizeof count) == sizeof count;
}

// 0: there is nothing to take.
std::uint64_t take(int fd) {
    std::uint64_t taken = 0;
    return may(fd, POLLIN) && ::read(fd, &taken, sizeof taken) == sizeof taken ? taken : 0;
}

// By what it does, which is undone: with two or more in it a read(2) of a semaphore takes one, of any other
// all. Nobody is asleep in a read or write of it, who would be let go: all stand still, and a call that is
// interrupted so waits anew. None: it is full, or somebody outside is at it as well.
std::optional<bool> is_semaphore(int fd, std::uint64_t count) {
    constexpr std::uint64_t most = ~std::uint64_t{0} - 1;  // where a write waits
    if (count >= most - 2 || !may(fd, POLLOUT) || !add(fd, 2)) return {};
    const auto taken = take(fd);
    if (taken == 1) return take(fd) == 1 ? std::optional(true) : std::nullopt;
    if (taken != count + 2 || (count != 0 && !add(fd, count))) return {};
    return false;
}

}  // namespace

Result<std::optional<bool>> eventfd_is_semaphore(int fd, std::uint64_t count) {
    auto guard = TRY(Guard::begin("cairn-eventfd", [&](int to) {
        const auto semaphore = is_semaphore(fd, count);
        const char word = !semaphore ? '?' : *semaphore ? 's' : 'c';
        return ::write(to, &word, 1) == 1;
    }));
    char word = '?';
    const bool told = ::read(guard.answer(), &word, 1) == 1;
    if (!guard.end() || !told || word == '?') return std::optional<bool>();
    return std::optional(word == 's');
}

Result<> describe_eventfd(Table& table, const Description& found, schema::Object& object) {
    const auto count = info_number(found.info, "eventfd-count", 16);
    std::optional<bool> semaphore;
    if (const auto told = info_field(found.info, "eventfd-semaphore"); told.has_value())
        semaphore = info_number(found.info, "eventfd-semaphore") != 0;
    else
        semaphore = TRY(eventfd_is_semaphore(found.fd(), count));
    if (!semaphore)
        table.note("{} is an eventfd: this kernel doesn't tell whether it is a semaphore", found.who());
    object.what = schema::Eventfd{count, semaphore.value_or(false)};
    return {};
}

}  // namespace cairn::capture
