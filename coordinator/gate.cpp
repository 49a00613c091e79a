#include "coordinator/gate.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <string_view>

#include "common/gate_name.h"
#include "common/message_descriptors.h"
#include "coordinator/process_info.h"

namespace cairn::coordinator {

namespace asio = boost::asio;
using namespace std::chrono_literals;

namespace {

#ifndef SO_PEERPIDFD
constexpr int SO_PEERPIDFD = 77;  // asm-generic/socket.h, since Linux 6.5
#endif

// A name that nobody can have taken before us.
std::string fresh_name() {
    std::array<unsigned char, 16> bytes{};
    if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) return {};
    std::string name = "cairn-gate-";
    for (const unsigned char byte : bytes) name += fmt::format("{:02x}", byte);
    return name;
}

bool bind_name(int fd, std::string_view name) {
    sockaddr_un address{};
    if (name.empty() || name.size() >= sizeof address.sun_path) return false;
    address.sun_family = AF_UNIX;
    std::memcpy(&address.sun_path[1], name.data(), name.size());
    return ::bind(fd, reinterpret_cast<const sockaddr*>(&address),
                  static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())) == 0;
}

// Is the process that connected still the one that has this pid? It might have ended, with the connection in
// a child's hands, and the pid be a member's by now. Kernels that can't tell are taken at their word.
bool still_there(const Fd& socket) {
    int number = -1;
    socklen_t size = sizeof number;
    if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERPIDFD, &number, &size) != 0)
        return errno == ENOPROTOOPT;
    const Fd process(number);
    return ::syscall(SYS_pidfd_send_signal, process.get(), 0, nullptr, 0U) == 0;
}

void hand_over(const Fd& socket, const Fd& region) {
    constexpr std::string_view anything("\0", 1);
    const int number = region.get();
    // Who doesn't take it has gone.
    (void)send_with(socket.get(), anything, {&number, 1}, MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace

Gate::Gate(asio::io_context& io, Regions& regions, std::function<bool(pid_t)> admits,
           std::function<void(pid_t, std::size_t)> gives, std::function<void(const std::string&)> note)
    : regions_(regions),
      admits_(std::move(admits)),
      gives_(std::move(gives)),
      note_(std::move(note)),
      acceptor_(io, [this](const Fd& socket) { answer(socket); }),
      acceptor_by_path_(io, [this](const Fd& socket) { answer(socket); }) {}

Result<> Gate::open() {
    open_by_path();
    return open_for_other_users();
}

void Gate::open_by_path() {
    Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const auto& path = regions_.owners().path;
    const auto name = gate_name_of(std::string(&path[0], ::strnlen(&path[0], sizeof path)).c_str());
    if (fd && bind_name(fd.get(), &name.text[0]) && ::listen(fd.get(), 256) == 0)
        return acceptor_by_path_.start(std::move(fd));
    note_(fmt::format("who can't open the session's region doesn't get it otherwise either: {}",
                      std::strerror(errno)));
}

Result<> Gate::open_for_other_users() {
    if (::geteuid() != 0) return {};
    Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd) return fail_errno("socket");
    const Region& known = regions_.owners();
    std::string name(&known.gate[0], ::strnlen(&known.gate[0], sizeof known.gate));
    if (!bind_name(fd.get(), name)) {
        name = fresh_name();
        if (!bind_name(fd.get(), name)) return fail_errno("the session's gate: bind");
    }
    if (::listen(fd.get(), 256) != 0) return fail_errno("the session's gate: listen");
    for (std::size_t number = 0; number < regions_.size(); ++number) {
        Region& region = regions_[number];
        std::memset(&region.gate[0], 0, sizeof region.gate);
        std::memcpy(&region.gate[0], name.data(), std::min(name.size(), sizeof region.gate - 1));
    }
    acceptor_.start(std::move(fd));
    return {};
}

void Gate::close() {
    acceptor_.stop();
    acceptor_by_path_.stop();
}

void Gate::answer(const Fd& socket) {
    ucred who{};
    socklen_t size = sizeof who;
    if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &who, &size) != 0) return;
    if (!admits_(who.pid) || !still_there(socket)) {
        const auto now = std::chrono::steady_clock::now();
        if (now - noted_ < 1s) return;
        noted_ = now;
        note_(fmt::format("{} (user {}) has asked for the session's region, and is no child of a member",
                          describe(who.pid), who.uid));
        return;
    }
    // Who can still become the owner gets the owner's.
    const auto ids = user_ids(who.pid);
    if (!ids) return;
    // Of an ordinary user's session nobody else is a member.
    if (::geteuid() != 0 && ids->region_of(regions_.owner()) != regions_.owner()) return;
    const auto number = regions_.of_user(ids->region_of(regions_.owner()));
    auto region = number ? regions_.descriptor(*number) : std::unexpected(number.error());
    if (!region)
        return note_(
            fmt::format("{} (user {}) gets no region: {}", describe(who.pid), who.uid, region.error().what));
    gives_(who.pid, *number);
    hand_over(socket, *region);
}

}  // namespace cairn::coordinator
