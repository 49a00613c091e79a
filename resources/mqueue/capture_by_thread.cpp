#include "resources/mqueue/capture_by_thread.h"

#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <mqueue.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>

#include "common/agent.h"

namespace cairn::capture {
namespace {

// Bytes of what waits in a socket, or is promised to it: the kernel makes the message at mq_notify(2) already
// (netlink_attachskb()). SO_MEMINFO: Linux 4.12.
std::uint32_t charged(int socket) {
    std::array<std::uint32_t, SK_MEMINFO_VARS> amounts{};
    socklen_t length = sizeof amounts;
    if (::getsockopt(socket, SOL_SOCKET, SO_MEMINFO, amounts.data(), &length) != 0) return 0;
    return amounts[SK_MEMINFO_RMEM_ALLOC];
}

// Of one notification: asked for with a queue of our own.
Result<std::uint32_t> charge_of_one() {
    const std::string name = fmt::format("/cairn-notice-{}", ::getpid());
    mq_attr attributes{};
    attributes.mq_maxmsg = attributes.mq_msgsize = 1;
    const Fd queue(::mq_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600, &attributes));
    if (queue) ::mq_unlink(name.c_str());
    const Fd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
    std::array<char, notice_size> bytes{};
    sigevent event{};
    event.sigev_notify = SIGEV_THREAD;
    event.sigev_signo = socket.get();
    event.sigev_value.sival_ptr = bytes.data();
    if (!queue || !socket || ::syscall(SYS_mq_notify, queue.get(), &event) != 0)
        return fail_errno("a POSIX message queue of our own");
    return charged(socket.get());
}

struct Sockets {
    std::vector<std::int64_t> all;  // to which something is promised, and in which nothing waits
    std::uint64_t promised = 0;     // bytes
    bool some_wait = false;
};

Sockets sockets_of(const Table& table) {
    Sockets found;
    for (const auto& [id, description] : table.descriptions) {
        if (!table.objects[static_cast<std::size_t>(id)].is<schema::Netlink>()) continue;
        const int fd = description.fd();
        const auto amount = charged(fd);
        if (amount == 0) continue;
        pollfd polled{fd, POLLIN, 0};
        const bool waits = ::poll(&polled, 1, 0) != 0;
        found.some_wait = found.some_wait || waits;
        if (waits) continue;
        found.all.push_back(id);
        found.promised += amount;
    }
    return found;
}

}  // namespace

Result<> find_notice_sockets(const Table& table, const std::vector<ByThread>& wanted) {
    if (wanted.empty()) return {};
    const auto one = TRY(charge_of_one());
    const auto found = sockets_of(table);
    if (one != 0 && found.promised == wanted.size() * one) return {};
    std::string who;
    for (const auto& [process, queue] : wanted)
        who += fmt::format("{}{} of {}", who.empty() ? "" : ", ", proc::label(process), queue);
    auto refused = fail_code(
        ExitCode::refused, "{}: to be notified by a thread (SIGEV_THREAD of mq_notify(3)): {}", who,
        found.some_wait
            ? "something waits in a netlink socket, by which that may be heard of: once it has been read "
              "this can be saved"
            : "the netlink socket by which that would be heard of has been closed, so that a restart "
              "couldn't ask for it again; let it ask for a signal");
    refused.error().passing = found.some_wait;
    return refused;
}

Result<RenewedNotice> notice_of(const Table& table, pid_t process, std::span<const std::int64_t> queue) {
    if (!table.options.renew_notice) return fail("nobody can ask for it");
    return table.options.renew_notice(process, queue, sockets_of(table).all);
}

}  // namespace cairn::capture
