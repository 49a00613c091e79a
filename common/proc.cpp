#include "common/proc.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <memory>
#include <sstream>

#include "common/each_in_parallel.h"
#include "common/fd.h"
#include "common/namespace_folder.h"
#include "common/printable.h"

namespace cairn::proc {
namespace {

std::uint64_t hex(std::string_view text) {
    std::uint64_t value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value, 16);
    return value;
}

// Cuts the next blank-separated word off `line`.
std::string_view word(std::string_view& line) {
    const auto begin = std::min(line.find_first_not_of(' '), line.size());
    line.remove_prefix(begin);
    const auto end = std::min(line.find(' '), line.size());
    const auto result = line.substr(0, end);
    line.remove_prefix(end);
    return result;
}

MapLine parse_map_line(std::string_view line) {
    MapLine map;
    const auto range = word(line);
    const auto dash = range.find('-');
    map.start = ProgramAddress(hex(range.substr(0, dash)));
    map.end = ProgramAddress(hex(range.substr(dash + 1)));
    const auto perms = word(line);
    if (perms.size() >= 4) {
        map.prot = (perms[0] == 'r' ? PROT_READ : 0) | (perms[1] == 'w' ? PROT_WRITE : 0) |
                   (perms[2] == 'x' ? PROT_EXEC : 0);
        map.shared = perms[3] == 's';
    }
    map.offset = hex(word(line));
    const auto device = word(line);
    const auto colon = device.find(':');
    map.major = static_cast<std::uint32_t>(hex(device.substr(0, colon)));
    map.minor = static_cast<std::uint32_t>(hex(device.substr(colon + 1)));
    const auto inode = word(line);
    std::from_chars(inode.data(), inode.data() + inode.size(), map.inode);
    const auto begin = std::min(line.find_first_not_of(' '), line.size());
    map.name = line.substr(begin);
    constexpr std::string_view deleted = " (deleted)";
    if (map.name.ends_with(deleted) && !map.name.starts_with('[')) {
        map.deleted = true;
        map.name.resize(map.name.size() - deleted.size());
    }
    return map;
}

bool is_map_header(std::string_view line) {
    // "7f12-7f13 rw-p ..." against "Rss:   4 kB", of which there are twenty for each.
    if (line.front() >= 'A' && line.front() <= 'Z') return false;
    const auto blank = line.find(' ');
    const auto dash = line.find('-');
    return dash != std::string_view::npos && blank != std::string_view::npos && dash < blank &&
           std::isxdigit(static_cast<unsigned char>(line[0])) != 0 && line.find(':') > dash;
}

Result<Stat> parse_stat(const std::string& path) {
    auto text = TRY(read_file(path));
    const auto open = text.find('(');
    const auto close = text.rfind(')');  // comm may hold blanks and parentheses
    if (open == std::string::npos || close == std::string::npos) return fail("{}: not a stat line", path);
    Stat stat;
    stat.comm = text.substr(open + 1, close - open - 1);
    std::string_view rest(text);
    rest.remove_prefix(std::min(close + 2, rest.size()));
    std::array<std::string_view, 53> field;
    for (std::size_t i = 3; i < field.size(); ++i) field[i] = word(rest);
    const auto number = [&](std::size_t i) -> std::int64_t {
        std::int64_t value = 0;
        std::from_chars(field[i].data(), field[i].data() + field[i].size(), value);
        return value;
    };
    const auto large = [&](std::size_t i) {
        std::uint64_t value = 0;
        std::from_chars(field[i].data(), field[i].data() + field[i].size(), value);
        return value;
    };
    const auto address = [&](std::size_t i) { return ProgramAddress(large(i)); };
    stat.state = field[3].empty() ? '?' : field[3][0];
    stat.ppid = static_cast<pid_t>(number(4));
    stat.pgrp = static_cast<pid_t>(number(5));
    stat.session = static_cast<pid_t>(number(6));
    stat.tty_nr = static_cast<int>(number(7));
    stat.tpgid = static_cast<pid_t>(number(8));
    stat.flags = large(9);
    stat.utime = large(14);
    stat.stime = large(15);
    stat.nice = static_cast<long>(number(19));
    stat.threads = static_cast<long>(number(20));
    stat.start_time = large(22);
    stat.start_code = address(26);
    stat.end_code = address(27);
    stat.start_stack = address(28);
    stat.exit_signal = static_cast<int>(number(38));
    stat.start_data = address(45);
    stat.end_data = address(46);
    stat.start_brk = address(47);
    stat.arg_start = address(48);
    stat.arg_end = address(49);
    stat.env_start = address(50);
    stat.env_end = address(51);
    stat.exit_code = static_cast<int>(number(52));
    return stat;
}

}  // namespace

namespace {

Result<std::string> read_open(const Fd& fd, const std::string& path) {
    if (!fd) return fail_errno("{}", path);
    std::string text;
    // /proc makes long files page by page: a large buffer means fewer calls and fewer torn reads. Nobody
    // fills it before: most files are short, and read of each thread while everybody stands still.
    std::array<char, 32768> piece;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    for (;;) {
        const ssize_t got = ::read(fd.get(), piece.data(), piece.size());
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return fail_errno("{}", path);
        if (got == 0) return text;
        text.append(piece.data(), static_cast<std::size_t>(got));
    }
}

}  // namespace

Result<std::string> read_file(const std::string& path) {
    return read_open(Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC)), path);
}

Result<std::string> read_file_in(int folder, const std::string& name) {
    return read_open(Fd(::openat(folder, name.c_str(), O_RDONLY | O_CLOEXEC)), name);
}

Result<std::string> read_link(const std::string& path) {
    std::array<char, 4096> target;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    const ssize_t length = ::readlink(path.c_str(), target.data(), target.size());
    if (length < 0) return fail_errno("{}", path);
    return std::string(target.data(), static_cast<std::size_t>(length));
}

namespace {

// Line by line: what /proc shows of tens of thousands of mappings is tens of megabytes of text, which costs
// as much to keep as to read.
template <class Call>
Result<> for_each_line(const std::string& path, const Call& call) {
    const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd) return fail_errno("{}", path);
    std::vector<char> buffer(65536);  // more than a line of a mapping can have (PATH_MAX, with escapes)
    std::size_t kept = 0;             // of a line whose end hasn't been read
    for (;;) {
        const ssize_t got = ::read(fd.get(), buffer.data() + kept, buffer.size() - kept);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return fail_errno("{}", path);
        std::string_view rest(buffer.data(), kept + static_cast<std::size_t>(got));
        for (auto end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
            call(rest.substr(0, end));
            rest.remove_prefix(end + 1);
        }
        if (got == 0 || rest.size() == buffer.size()) {
            if (!rest.empty()) call(rest);
            rest = {};
        }
        if (got == 0) return {};
        kept = rest.size();
        if (kept > 0) std::memmove(buffer.data(), rest.data(), kept);
    }
}

// The first of the numbers of /proc/PID/statm, in pages.
template <std::size_t count>
Result<std::array<std::uint64_t, count>> first_of_statm(pid_t pid) {
    const auto path = fmt::format("/proc/{}/statm", pid);
    const auto text = TRY(read_file(path));
    std::array<std::uint64_t, count> numbers = {};
    std::string_view rest = text;
    for (auto& number : numbers) {
        const auto each = word(rest);
        if (std::from_chars(each.data(), each.data() + each.size(), number).ec != std::errc())
            return fail("{} has no number: \"{}\"", path, text);
    }
    return numbers;
}

template <class Number>
Number first_number(std::string_view line) {
    const auto digits = line.substr(std::min(line.find_first_of("0123456789"), line.size()));
    Number number = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), number);
    return number;
}

}  // namespace

Result<std::vector<MapLine>> maps(pid_t pid, bool with_flags) {
    std::vector<MapLine> result;
    const auto add = [&](std::string_view line) {
        if (line.empty()) return;
        if (is_map_header(line)) {
            result.push_back(parse_map_line(line));
        } else if (line.starts_with("VmFlags:") && !result.empty()) {
            result.back().flags = line.substr(8);
        } else if (line.starts_with("KernelPageSize:") && !result.empty()) {
            result.back().page_size = first_number<std::uint64_t>(line) * 1024;
        } else if (line.starts_with("ProtectionKey:") && !result.empty()) {
            result.back().protection_key = first_number<std::uint32_t>(line);
        }
    };
    CHECK_OK(for_each_line(fmt::format("/proc/{}/{}", pid, with_flags ? "smaps" : "maps"), add));
    return result;
}

bool is_kernels_mapping(std::string_view name) {
    return name.starts_with('[') && name != "[heap]" && !name.starts_with("[stack") &&
           !name.starts_with("[anon");  // and "[anon_shmem:"
}

Result<std::uint64_t> mapped_pages(pid_t pid) {
    return TRY(first_of_statm<1>(pid))[0];
}

Result<std::uint64_t> anonymous_pages(pid_t pid) {
    const auto [mapped, there, of_files] = TRY(first_of_statm<3>(pid));
    return there - std::min(there, of_files);
}

Result<Stat> stat(pid_t pid) {
    return parse_stat(fmt::format("/proc/{}/stat", pid));
}

Result<Stat> stat(pid_t pid, pid_t tid) {
    return parse_stat(fmt::format("/proc/{}/task/{}/stat", pid, tid));
}

Result<Status> status(pid_t pid, pid_t tid) {
    return Status(TRY(read_file(fmt::format("/proc/{}/task/{}/status", pid, tid))));
}

Result<std::vector<pid_t>> tasks(pid_t pid) {
    const auto path = fmt::format("/proc/{}/task", pid);
    const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(path.c_str()), ::closedir);
    if (!dir) return fail_errno("{}", path);
    std::vector<pid_t> result;
    while (const dirent* entry = ::readdir(dir.get())) {
        pid_t tid = 0;
        const std::string_view name = entry->d_name;
        std::from_chars(name.data(), name.data() + name.size(), tid);
        if (tid > 0) result.push_back(tid);
    }
    std::ranges::sort(result);
    // the main thread first
    if (const auto main = std::ranges::find(result, pid); main != result.end())
        std::rotate(result.begin(), main, main + 1);
    return result;
}

std::vector<pid_t> processes() {
    std::vector<pid_t> pids;
    const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir("/proc"), ::closedir);
    while (dirent* entry = dir ? ::readdir(dir.get()) : nullptr) {
        pid_t pid = 0;
        std::from_chars(entry->d_name, entry->d_name + std::strlen(entry->d_name), pid);
        if (pid > 0) pids.push_back(pid);
    }
    return pids;
}

Result<std::vector<pid_t>> children(pid_t pid) {
    return children(pid, TRY(tasks(pid)));
}

std::vector<pid_t> children(pid_t pid, const std::vector<pid_t>& threads) {
    constexpr std::size_t few = 64;
    std::vector<std::vector<pid_t>> of_each(threads.size());
    (void)each_in_parallel(
        threads.size(),
        [&](std::size_t i) -> Result<> {
            const auto text = read_file(fmt::format("/proc/{}/task/{}/children", pid, threads[i]));
            if (!text || text->empty()) return {};  // the thread has gone meanwhile, or has none
            std::istringstream words(*text);
            for (pid_t child = 0; words >> child;) of_each[i].push_back(child);
            return {};
        },
        Work::computes, few);
    std::vector<pid_t> result;
    for (const auto& its : of_each) result.insert(result.end(), its.begin(), its.end());
    return result;
}

ClockOffsets clock_offsets(const std::string& who) {
    ClockOffsets offsets;
    const auto text = read_file(fmt::format("/proc/{}/timens_offsets", who));
    if (!text) return offsets;
    std::istringstream lines(*text);
    std::string clock;
    for (std::int64_t seconds = 0, nanoseconds = 0; lines >> clock >> seconds >> nanoseconds;) {
        const auto offset = seconds * 1'000'000'000 + nanoseconds;
        if (clock == "monotonic") offsets.monotonic = offset;
        if (clock == "boottime") offsets.boottime = offset;
    }
    return offsets;
}

std::uint64_t namespace_of(const std::string& who, const char* name) {
    return NamespaceFolder("/proc/" + who).number_of(name);
}

std::optional<ClockOffsets> clock_offsets_in(std::uint64_t space) {
    const auto shows = [space](const std::string& who) {
        return space != 0 && namespace_of(who, "time_for_children") == space;
    };
    if (shows("self")) return clock_offsets("self");
    for (const pid_t pid : processes())
        if (const auto who = fmt::format("{}", pid); shows(who)) return clock_offsets(who);
    return std::nullopt;
}

ClockOffsets own_clock_offsets(const std::string& who) {
    const auto own = namespace_of(who, "time");
    if (own == 0 || own == namespace_of(who, "time_for_children")) return clock_offsets(who);
    return clock_offsets_in(own).value_or(ClockOffsets{});
}

// The kernel wants whole seconds and 0 to 999999999 ns.
std::string offsets_text(const ClockOffsets& offsets) {
    constexpr std::int64_t second = 1'000'000'000;
    const auto line = [](const char* clock, std::int64_t offset) {
        const auto seconds = offset >= 0 ? offset / second : (offset - (second - 1)) / second;
        return fmt::format("{} {} {}\n", clock, seconds, offset - seconds * second);
    };
    return line("monotonic", offsets.monotonic) + line("boottime", offsets.boottime);
}

pid_t living_thread(pid_t pid) {
    const auto lives = [pid](pid_t tid) {
        const auto line = stat(pid, tid);
        return line && line->state != 'Z' && line->state != 'X';
    };
    if (lives(pid)) return pid;
    const auto threads = tasks(pid).value_or(std::vector<pid_t>{});
    const auto found = std::ranges::find_if(threads, lives);
    return found == threads.end() ? pid : *found;
}

std::optional<pid_t> process_of(pid_t tid) {
    const auto status = read_file(fmt::format("/proc/{}/status", tid));
    const std::size_t at = status ? status->find("\nTgid:") : std::string::npos;
    if (at == std::string::npos) return std::nullopt;
    return std::atoi(status->c_str() + at + std::strlen("\nTgid:"));
}

std::string label(pid_t pid) {
    auto line = stat(pid);
    return line ? fmt::format("{} ({})", pid, printable(line->comm)) : fmt::format("{}", pid);
}

std::uint64_t hexadecimal(const std::string& text) {
    std::uint64_t value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value, 16);
    return value;
}

}  // namespace cairn::proc
