// epoll(7): what it watches, by /proc/PID/fdinfo/N and comparison (kcmp(2)).
#include <fcntl.h>
#include <linux/kcmp.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "common/same.h"
#include "resources/capture/table.h"

namespace cairn::capture {

// What it watches is described when all others are known: capture_epolls().
Result<> describe_epoll(Table&, const Description&, schema::Object& object) {
    object.what = schema::Epoll{};
    return {};
}

namespace {

struct Watched {
    ProgramFd fd;
    std::uint32_t events = 0;
    std::uint64_t data = 0;
    unsigned long long inode = 0;
};

// "tfd:        8 events: 80000019 data:       1234567890  pos:0 ino:8ecce sdev:9"
std::vector<Watched> parse(std::string_view info) {
    std::vector<Watched> list;
    std::size_t at = 0;
    while ((at = info.find("tfd:", at)) != std::string_view::npos) {
        const std::string line(info.substr(at, info.find('\n', at) - at));
        at += line.size();
        Watched each;
        int number = -1;
        unsigned long long data = 0;
        if (std::sscanf(line.c_str(), "tfd: %d events: %x data: %llx pos:%*d ino:%llx", &number, &each.events,
                        &data, &each.inode) < 4)
            continue;
        each.fd = ProgramFd(number);
        each.data = data;
        list.push_back(each);
    }
    return list;
}

// Is `target` what is registered as the nth of `number`?
bool watches(int epoll, ProgramFd number, std::uint32_t nth, int target) {
    static const pid_t self = ::getpid();
    kcmp_epoll_slot slot{static_cast<__u32>(epoll), static_cast<__u32>(number.number()), nth};
    return ::syscall(SYS_kcmp, self, self, KCMP_EPOLL_TFD, target, reinterpret_cast<unsigned long>(&slot)) ==
           0;
}

// Without kcmp: an epoll knows what is registered by description and number, and refuses to add it again. So
// the target is put at that number here for the moment.
Result<bool> refuses_again(int epoll, ProgramFd watched, int target) {
    const int number = watched.number();
    Fd held, moved;
    if (number == epoll) {
        held.reset(::fcntl(epoll, F_DUPFD_CLOEXEC, 0));
        epoll = held.get();
    }
    if (number != target) {
        const bool taken = ::fcntl(number, F_GETFD) >= 0;
        if (taken) moved.reset(::fcntl(number, F_DUPFD_CLOEXEC, 0));
        if ((taken && !moved) || ::dup3(target, number, O_CLOEXEC) < 0)
            return fail_errno(
                "the target of an epoll can't be put at number {}, where it is looked for since kcmp is "
                "forbidden",
                watched);
    }
    epoll_event nothing{};
    const bool added = ::epoll_ctl(epoll, EPOLL_CTL_ADD, number, &nothing) == 0;
    const bool known = !added && errno == EEXIST;
    if (added) ::epoll_ctl(epoll, EPOLL_CTL_DEL, number, nullptr);
    if (number == target) return known;
    if (!moved)
        ::close(number);
    else if (::dup3(moved.get(), number, O_CLOEXEC) < 0)
        return fail_errno("descriptor {}", number);
    return known;
}

// The object that is registered as the nth of its number; -1: no member has it open.
Result<std::int64_t> find_target(const Table& table, int epoll, const Watched& watched, std::uint32_t nth,
                                 const schema::Epoll& saved) {
    for (const auto& [other, description] : table.descriptions) {
        if (description.status.st_ino != watched.inode) continue;
        if (kcmp_is_allowed()) {
            if (watches(epoll, watched.fd, nth, description.fd())) return other;
            continue;
        }
        const bool taken = std::ranges::any_of(saved.targets, [&](const schema::EpollTarget& target) {
            return target.fd == watched.fd && target.object == other;
        });
        if (taken) continue;
        const bool known = TRY(refuses_again(epoll, watched.fd, description.fd()));
        if (known) return other;
    }
    return -1;
}

}  // namespace

// Which description a number stands for is told by the kernel only by comparison: the number may have been
// closed, or be another file's by now, while a duplicate keeps what was registered.
Result<> capture_epolls(Table& table) {
    for (auto& [id, epoll] : table.descriptions) {
        schema::Object& object = table.objects[static_cast<std::size_t>(id)];
        auto* saved = object.get<schema::Epoll>();
        if (saved == nullptr) continue;
        const Fd held(::fcntl(epoll.fd(), F_DUPFD_CLOEXEC, 0));  // all others are asked for theirs
        if (!held) return fail_errno("{}", epoll.who());
        std::map<ProgramFd, std::uint32_t> seen;  // registered under one number: told apart by their order
        for (const Watched& watched : parse(epoll.info)) {
            const auto target = TRY(find_target(table, held.get(), watched, seen[watched.fd]++, *saved));
            if (target < 0)
                table.note(
                    "{} is an epoll that watches something (number {}) that no member has open: left out",
                    epoll.who(), watched.fd);
            else
                saved->targets.push_back({watched.fd, target, watched.events, watched.data});
        }
    }
    return {};
}

}  // namespace cairn::capture
