// epoll(7): what it watches, by /proc/PID/fdinfo/N and comparison (kcmp(2)).
#include <fcntl.h>
#include <linux/kcmp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>

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

}  // namespace

// Which description a number stands for is told by the kernel only by comparison: the number may have been
// closed, or be another file's by now, while a duplicate keeps what was registered.
Result<> capture_epolls(Table& table) {
    static const pid_t self = ::getpid();
    for (auto& [id, epoll] : table.descriptions) {
        schema::Object& object = table.objects[static_cast<std::size_t>(id)];
        auto* saved = object.get<schema::Epoll>();
        if (saved == nullptr) continue;
        const Fd held(::fcntl(epoll.fd(), F_DUPFD_CLOEXEC, 0));  // all others are asked for theirs
        if (!held) return fail_errno("{}", epoll.who());
        std::map<ProgramFd, std::uint32_t> seen;  // registered under one number: told apart by their order
        for (const Watched& watched : parse(epoll.info)) {
            kcmp_epoll_slot slot{static_cast<__u32>(held.get()), static_cast<__u32>(watched.fd.number()),
                                 seen[watched.fd]++};
            std::int64_t target = -1;
            for (const auto& [other, description] : table.descriptions) {
                if (description.status.st_ino != watched.inode) continue;
                const long order = ::syscall(SYS_kcmp, self, self, KCMP_EPOLL_TFD, description.fd(),
                                             reinterpret_cast<unsigned long>(&slot));
                if (order == 0) target = other;
                if (order == 0) break;
            }
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
