#include "resources/capture/description.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <climits>

#include "common/printable.h"

namespace cairn::capture {

std::string name_of(const Holder& holder) {
    auto name = read_text(fmt::format("/proc/{}/comm", holder.pid));
    if (!name) return fmt::format("{}", holder.pid);
    while (!name->empty() && name->back() == '\n') name->pop_back();
    return fmt::format("{} ({})", holder.pid, printable(*name));
}

std::string Description::who() const {
    if (!waits_in.empty()) return fmt::format("{}: a descriptor on its way through it", waits_in);
    return fmt::format("{}: descriptor {}", name_of(holder), number);
}

std::string proc_folder(const Holder& holder) {
    return fmt::format("/proc/{}/task/{}/", holder.pid, holder.tid ? holder.tid : holder.pid);
}

std::optional<std::string_view> info_field(std::string_view info, std::string_view key) {
    std::size_t at = 0;
    while (at < info.size()) {
        const std::size_t end = std::min(info.find('\n', at), info.size());
        std::string_view line = info.substr(at, end - at);
        at = end + 1;
        if (!line.starts_with(key) || line.size() <= key.size() || line[key.size()] != ':') continue;
        line.remove_prefix(key.size() + 1);
        while (!line.empty() && (line.front() == ' ' || line.front() == '\t')) line.remove_prefix(1);
        return line;
    }
    return std::nullopt;
}

std::uint64_t info_number(std::string_view info, std::string_view key, int base) {
    const auto field = info_field(info, key);
    std::uint64_t value = 0;
    if (field) std::from_chars(field->data(), field->data() + field->size(), value, base);
    return value;
}

Result<std::string> read_link(const std::string& path) {
    std::string target(PATH_MAX, '\0');
    const ssize_t length = ::readlink(path.c_str(), target.data(), target.size());
    if (length < 0) return fail_errno("{}", path);
    target.resize(static_cast<std::size_t>(length));
    return target;
}

Result<std::string> read_text(const std::string& path) {
    const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) return fail_errno("{}", path);
    std::string text;
    for (;;) {
        char piece[4096];
        const ssize_t got = ::read(file.get(), piece, sizeof piece);
        if (got < 0) return fail_errno("{}", path);
        if (got == 0) return text;
        text.append(piece, static_cast<std::size_t>(got));
    }
}

Result<std::vector<ProgramFd>> list_descriptors(const Holder& holder) {
    const std::string path = proc_folder(holder) + "fd";
    DIR* folder = ::opendir(path.c_str());
    if (!folder) return fail_errno("{}: descriptors can't be listed: {}", name_of(holder), path);
    std::vector<ProgramFd> numbers;
    errno = 0;
    while (const dirent* entry = ::readdir(folder)) {
        if (entry->d_name[0] == '.') continue;
        numbers.emplace_back(std::atoi(entry->d_name));
    }
    const int problem = errno;
    ::closedir(folder);
    if (problem != 0) {
        errno = problem;
        return fail_errno("{}: {}", name_of(holder), path);
    }
    std::ranges::sort(numbers);
    return numbers;
}

namespace {

// `number`: in the table that `folder` shows.
Result<> look_at(Description& found, const std::string& folder, int number) {
    if (::fstat(found.fd(), &found.status) != 0) return fail_errno("fstat");
    found.flags = ::fcntl(found.fd(), F_GETFL);
    if (found.flags < 0) return fail_errno("F_GETFL");
    auto link = read_link(fmt::format("{}fd/{}", folder, number));
    if (!link) return std::unexpected(std::move(link.error()));
    found.link = std::move(*link);
    auto info = read_text(fmt::format("{}fdinfo/{}", folder, number));
    if (!info) return std::unexpected(std::move(info.error()));
    found.info = std::move(*info);
    return {};
}

}  // namespace

Result<Description> describe(const Holder& holder, ProgramFd number, Result<Fd> duplicate,
                             bool& close_on_exec) {
    Description found;
    found.holder = holder;
    found.number = number;
    if (!duplicate) {
        const char* advice = duplicate.error().number == EMFILE
                                 ? "too many open files in the group: raise `ulimit -Hn` of the coordinator"
                                 : "it can't be duplicated";
        return std::unexpected(std::move(duplicate.error()).in(fmt::format("{}: {}", found.who(), advice)));
    }
    found.duplicate = std::move(*duplicate);
    if (auto done = look_at(found, proc_folder(holder), number.number()); !done)
        return std::unexpected(std::move(done.error()).in(found.who()));
    close_on_exec = (info_number(found.info, "flags", 8) & O_CLOEXEC) != 0;
    return found;
}

Result<Description> describe_in_flight(const Holder& holder, Fd duplicate, const std::string& where) {
    Description found;
    found.holder = holder;
    found.waits_in = where;
    found.duplicate = std::move(duplicate);
    if (auto done = look_at(found, "/proc/self/", found.fd()); !done)
        return std::unexpected(std::move(done.error()).in(found.who()));
    return found;
}

Result<int> compare(const Description& a, const Description& b) {
    struct Where {
        pid_t process;
        int number;
    };
    // By our duplicate, or where there is none at the moment, by the descriptor that it was found by.
    const auto where = [](const Description& each) -> Where {
        static const pid_t self = ::getpid();
        if (each.duplicate || each.duplicates == nullptr) return {self, each.duplicate.get()};
        return {each.holder.tid != 0 ? each.holder.tid : each.holder.pid, each.number.number()};
    };
    const Where first = where(a), second = where(b);
    const long order =
        ::syscall(SYS_kcmp, first.process, second.process, KCMP_FILE, first.number, second.number);
    if (order < 0) return fail_errno("kcmp: descriptors can't be compared");
    return order == 0 ? 0 : order == 1 ? -1 : 1;
}

Fd reopen(int fd, int flags) {
    return Fd(::open(fmt::format("/proc/self/fd/{}", fd).c_str(), flags | O_CLOEXEC | O_NOCTTY));
}

}  // namespace cairn::capture
