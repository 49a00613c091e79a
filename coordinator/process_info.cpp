#include "coordinator/process_info.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <string_view>

#include "common/fd.h"
#include "common/human.h"

namespace cairn::coordinator {
namespace {

std::optional<std::string> read_all(const std::string& path, std::size_t limit = 16 << 20) {
    const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd) return std::nullopt;
    std::string text;
    char buffer[16384];
    while (text.size() < limit) {
        const ssize_t n = ::read(fd.get(), buffer, sizeof buffer);
        if (n < 0) return std::nullopt;  // ESRCH: it has gone while we read
        if (n == 0) break;
        text.append(buffer, static_cast<std::size_t>(n));
    }
    return text;
}

std::string proc(pid_t pid, const char* file) {
    return fmt::format("/proc/{}/{}", pid, file);
}

std::uint64_t field_kib(std::string_view status, std::string_view name) {
    const std::size_t at = status.find(name);
    if (at == std::string_view::npos) return 0;
    return std::strtoull(status.data() + at + name.size(), nullptr, 10);
}

}  // namespace

std::optional<ProcessInfo> process_info(pid_t pid) {
    const auto text = read_all(proc(pid, "stat"));
    if (!text) return std::nullopt;
    // The name stands in parentheses and may hold any character, ')' included: the last one ends it.
    const std::size_t open = text->find('('), close = text->rfind(')');
    if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
    ProcessInfo info;
    info.name = text->substr(open + 1, close - open - 1);
    int parent = 0, terminal = 0;
    long threads = 0;
    unsigned long long ticks = 0;
    // Fields 3 to 22 of proc(5): state ppid pgrp session tty_nr tpgid flags minflt cminflt majflt cmajflt
    // utime stime cutime cstime priority nice num_threads itrealvalue starttime
    if (std::sscanf(text->c_str() + close + 1,
                    " %c %d %*d %*d %d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld %*d %llu",
                    &info.state, &parent, &terminal, &threads, &ticks) != 5)
        return std::nullopt;
    info.parent = parent;
    info.terminal = terminal;
    info.threads = static_cast<std::uint32_t>(threads);
    static const auto tick = static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
    info.started_ns = ticks * (1'000'000'000ULL / tick);
    return info;
}

std::string describe(pid_t pid) {
    const auto info = process_info(pid);
    return info ? fmt::format("{} ({})", pid, printable(info->name)) : fmt::format("{}", pid);
}

std::string command_line(pid_t pid, std::size_t limit) {
    auto text = read_all(proc(pid, "cmdline"), limit);
    if (!text) return {};
    while (text->ends_with('\0')) text->pop_back();
    for (char& c : *text)
        if (c == '\0') c = ' ';
    if (text->size() > limit) text->resize(limit);
    return printable(*text);
}

std::string terminal_path(std::int32_t device) {
    if (device == 0) return {};
    // The kernel's encoding in stat: minor bits 0-7 and 20-31, major bits 8-19.
    const auto bits = static_cast<std::uint32_t>(device);
    const std::uint32_t major_number = (bits >> 8) & 0xfff;
    const std::uint32_t minor_number = (bits & 0xff) | ((bits >> 12) & 0xfff00);
    if (major_number >= 136 && major_number <= 143)  // Unix98 pty slaves, 256 of them for each major
        return fmt::format("/dev/pts/{}", (major_number - 136) * 256 + minor_number);
    if (major_number == 4 && minor_number < 64) return fmt::format("/dev/tty{}", minor_number);
    if (major_number == 4) return fmt::format("/dev/ttyS{}", minor_number - 64);
    return {};
}

std::uint64_t memory_to_save(pid_t pid) {
    const auto status = read_all(proc(pid, "status"));
    if (!status) return 0;
    return 1024 * (field_kib(*status, "\nRssAnon:") + field_kib(*status, "\nVmSwap:"));
}

bool has_ended(pid_t pid) {
    const auto info = process_info(pid);
    // That its file can't be opened may be for want of a descriptor: the kernel is asked by a call without.
    return info ? has_ended(*info) : ::kill(pid, 0) != 0 && errno == ESRCH;
}

bool has_ended(const ProcessInfo& info) {
    if (info.state == 'X') return true;
    // A main thread that called pthread_exit() is a zombie while its siblings live.
    return info.state == 'Z' && info.threads <= 1;
}

bool begins_with(pid_t pid, const std::string& variable) {
    const auto environment = read_all(proc(pid, "environ"));
    // Each between two ends, the first and the last as well.
    return environment && ('\0' + *environment + '\0').find('\0' + variable + '\0') != std::string::npos;
}

bool begins_with_region(pid_t pid, const std::string& region) {
    if (!begins_with(pid, "CAIRN_REGION=" + region)) return false;
    std::error_code problem;
    const auto program = std::filesystem::read_symlink(proc(pid, "exe"), problem);
    return !problem &&
           program.parent_path() != std::filesystem::read_symlink("/proc/self/exe", problem).parent_path();
}

bool is_launcher(pid_t pid) {
    std::error_code problem;
    return std::filesystem::read_symlink(proc(pid, "exe"), problem).filename() == "cairn" && !problem;
}

bool is_secure(pid_t pid) {
    const auto vector = read_all(proc(pid, "auxv"));
    std::array<unsigned long, 2> entry{};
    for (std::size_t at = 0; vector && at + sizeof entry <= vector->size(); at += sizeof entry) {
        std::memcpy(entry.data(), vector->data() + at, sizeof entry);
        if (entry[0] == AT_SECURE) return entry[1] != 0;
    }
    return true;  // not to be read, or nothing in it
}

std::uint64_t boottime_ns() {
    timespec now{};
    ::clock_gettime(CLOCK_BOOTTIME, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000ULL +
           static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace cairn::coordinator
