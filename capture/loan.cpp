#include "capture/loan.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/message_descriptors.h"

namespace cairn::capture {
namespace {

Result<std::vector<Fd>> receive(int connection, std::size_t count) {
    char byte = 0;
    std::vector<Fd> received;
    if (receive_with(connection, {&byte, 1}, received, MSG_DONTWAIT) < 0) return fail_errno("recvmsg");
    // The kernel leaves away what we have no numbers for.
    errno = EMFILE;
    if (received.size() != count) return fail_errno("{} of {} descriptors came", received.size(), count);
    return received;
}

}  // namespace

// The kernel chooses a name that nobody else has (unix(7), autobind); it is of this network namespace, and
// needs no file.
Result<> Loans::listen() {
    listener_.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const sockaddr_un none{.sun_family = AF_UNIX, .sun_path = {}};
    sockaddr_un name{};
    socklen_t length = sizeof name;
    if (!listener_ ||
        ::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&none), sizeof none.sun_family) != 0 ||
        ::listen(listener_.get(), 1) != 0 ||
        ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&name), &length) != 0)
        return fail_errno("a socket for descriptors");
    const auto bytes = std::as_bytes(std::span(&name, 1)).first(length);
    address_.assign(bytes.begin(), bytes.end());
    return {};
}

// Anybody in this network namespace may connect: who it is, the kernel tells.
Result<Fd> Loans::accept_from(pid_t pid) const {
    for (;;) {
        Fd connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (!connection) return fail_errno("accept");
        ucred peer{};
        socklen_t size = sizeof peer;
        if (::getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid == pid)
            return connection;
    }
}

Result<std::vector<Fd>> Loans::borrow(AgentRun& agent, pid_t pid, std::span<const ProgramFd> numbers,
                                      const Reporter& reporter) {
    auto borrowed = [&]() -> Result<std::vector<Fd>> {
        if (!listener_) CHECK_OK(listen());
        CHECK_OK(agent.lend(numbers, address_, reporter));
        const Fd connection = TRY(accept_from(pid));
        return receive(connection.get(), numbers.size());
    }();
    if (!borrowed)
        return std::unexpected(
            std::move(borrowed.error())
                .in("pidfd_getfd is forbidden here (in a container: unless it is started with "
                    "--cap-add=SYS_PTRACE), and the process can't send its descriptors"));
    return borrowed;
}

}  // namespace cairn::capture
