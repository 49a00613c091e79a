#include "resources/kmsg/schema_log.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <string_view>

#include "common/proc.h"

namespace cairn {
namespace {

// As often as that the log may move on under a reader that is being brought to a record.
constexpr int turns = 10;

// "prio,number,usec,flags;text"
std::expected<std::uint64_t, int> number_of(std::string_view record) {
    const std::size_t comma = record.find(',');
    std::uint64_t number = 0;
    if (comma == std::string_view::npos) return std::unexpected(EPROTO);
    const char* end = record.data() + record.size();
    const auto [behind, problem] = std::from_chars(record.data() + comma + 1, end, number);
    if (problem != std::errc{} || behind == end || *behind != ',') return std::unexpected(EPROTO);
    return number;
}

// To the record before this one at least: the last one that was read, or errno.
std::expected<std::uint64_t, int> read_up_to(LogReader& reader, std::uint64_t record) {
    for (;;) {
        const auto last = reader.read();
        if (last ? *last + 1 >= record : last.error() != EPIPE) return last;
    }
}

// Where a read fails with EPIPE the kernel puts a description by one call only: SEEK_DATA, if what it leads
// to was overwritten.
Arrival fall_behind(LogReader& reader) {
    reader.to_cleared();
    if (reader.next() == NextRecord::overwritten) return Arrival::overwritten;
    reader.to_oldest();
    return Arrival::oldest;
}

}  // namespace

std::expected<std::uint64_t, int> KernelLog::read() {
    // A description without O_NONBLOCK would wait.
    if (next() == NextRecord::none) return std::unexpected(EAGAIN);
    // A record that doesn't fit is taken all the same. They are 8 KiB at most (PRINTK_MESSAGE_MAX, formerly
    // CONSOLE_EXT_LOG_MAX).
    std::array<char, 16384> text;
    ssize_t size = 0;
    do size = ::read(fd_, text.data(), text.size());
    while (size < 0 && errno == EINTR);
    if (size < 0) return std::unexpected(errno);
    return number_of({text.data(), static_cast<std::size_t>(size)});
}

// With the offset 0 neither of these fails.
void KernelLog::to_oldest() {
    ::lseek(fd_, 0, SEEK_SET);
}
void KernelLog::to_cleared() {
    ::lseek(fd_, 0, SEEK_DATA);
}

NextRecord KernelLog::next() {
    pollfd polled{fd_, POLLIN, 0};
    if (::poll(&polled, 1, 0) != 1 || (polled.revents & POLLIN) == 0) return NextRecord::none;
    return (polled.revents & POLLERR) != 0 ? NextRecord::overwritten : NextRecord::there;
}

std::optional<std::uint64_t> oldest_record(LogReader& scout) {
    scout.to_oldest();
    for (;;) {
        const auto first = scout.read();
        if (first) return *first;
        if (first.error() != EPIPE) return std::nullopt;
    }
}

std::uint64_t end_of_log(LogReader& scout) {
    std::uint64_t end = 0;
    scout.to_oldest();
    for (;;) {
        const auto record = scout.read();
        if (record)
            end = *record + 1;
        else if (record.error() != EPIPE)
            return end;
    }
}

std::uint64_t overwritten_record(LogReader& scout) {
    const std::uint64_t oldest = oldest_record(scout).value_or(0);
    return oldest == 0 ? 0 : oldest - 1;
}

Arrival go_to(LogReader& reader, LogReader& scout, std::uint64_t record) {
    for (int turn = 0; turn < turns; ++turn) {
        const auto oldest = oldest_record(scout);
        if (oldest && *oldest > record) break;
        reader.to_oldest();
        if (oldest == record) {
            // It still was the oldest when the reader was put there, if it is now.
            if (oldest_record(scout) == record) return Arrival::there;
            continue;
        }
        const auto last = read_up_to(reader, record);
        if (!last) return Arrival::end;
        if (*last + 1 == record) return Arrival::there;
    }
    return fall_behind(reader);
}

FoundRecord find_next(LogReader& reader, LogReader& scout) {
    const auto taken = reader.read();
    if (taken) return {.next = *taken, .arrival = go_to(reader, scout, *taken)};
    // Overwritten since it was there; the error has been given to us instead of to the program.
    if (taken.error() == EPIPE) {
        const Arrival arrival = fall_behind(reader);
        return {.next = overwritten_record(scout), .arrival = arrival};
    }
    return {.problem = taken.error()};
}

Result<std::string> boot_of_log() {
    auto boot = TRY(proc::read_file("/proc/sys/kernel/random/boot_id"));
    return boot.substr(0, boot.find('\n'));
}

}  // namespace cairn
