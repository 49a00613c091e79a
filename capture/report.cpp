#include "capture/report.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>

#include "common/json_text.h"
#include "common/wire/capture.h"
#include "common/wire/events.h"

namespace cairn::capture {

template <class M>
void Reporter::say(const M& message) const {
    const std::string text = json_text(pack(message));
    // A coordinator that is gone is noticed by may_go_on; a slow one must not keep the group waiting.
    (void)::send(fd_, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void Reporter::failed(const Error& why) const {
    say(wire::Failed{.code = static_cast<int>(why.code),
                     .reason = printable(why.what),
                     .passing = why.passing,
                     .phase = phase_});
}

void Reporter::phase(const std::string& name, const std::vector<std::string>& waiting) {
    const bool begins = name != phase_;
    phase_ = name;
    say(wire::Phase{.phase = name, .waiting = waiting});
    if (begins) fault_point(name);
}

void Reporter::progress(std::uint64_t bytes, std::uint64_t total, const std::string& last) {
    const auto now = Clock::now();
    if (now - last_progress_ < std::chrono::milliseconds(100)) return;
    last_progress_ = now;
    say(wire::Progress{.bytes = bytes, .total = total, .last = last});
}

void Reporter::fault_point(const std::string& name) const {
    const char* fault = std::getenv("CAIRN_FAULT");
    if (fault == nullptr) return;
    const std::string text = fault;
    const auto colon = text.find(':');
    if (colon == std::string::npos || text.substr(0, colon) != name) return;
    const auto action = text.substr(colon + 1);
    if (action == "kill") ::kill(::getpid(), SIGKILL);
    if (action == "hang") ::pause();
    if (action == "slow") ::usleep(2'000'000);
}

Result<nlohmann::json> Reporter::pass(std::string_view barrier, nlohmann::json data) const {
    const std::string name(barrier);
    const std::string text = json_text(pack(wire::Barrier{.barrier = name, .data = std::move(data)}));
    // May wait: without this message nobody goes on anyway.
    if (::send(fd_, text.data(), text.size(), MSG_NOSIGNAL) < 0) return fail_errno("barrier {}", name);
    fault_point(name);
    std::string answer(std::size_t{8} << 20, '\0');
    for (;;) {
        if (auto fine = may_go_on([&] { return "the other hosts"; }); !fine)
            return std::unexpected(std::move(fine.error()));
        pollfd entry = {fd_, POLLIN, 0};
        ::poll(&entry, 1, 100);
        const ssize_t size = ::recv(fd_, answer.data(), answer.size(), MSG_DONTWAIT);
        if (size <= 0) continue;
        auto said = wire::unpack<wire::PassedBarrier>(
            nlohmann::json::parse(answer.data(), answer.data() + size, nullptr, false));
        if (said && said->pass == name) return std::move(said->data);
    }
}

bool Reporter::coordinator_gone() const {
    pollfd entry = {fd_, POLLIN, 0};
    if (::poll(&entry, 1, 0) <= 0) return false;
    char byte = 0;
    return (entry.revents & (POLLHUP | POLLERR)) != 0 || ::recv(fd_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

Result<> Reporter::may_go_on(const std::function<std::string()>& waiting) const {
    if (!undoing_ && coordinator_gone()) return fail("the coordinator has gone");
    if (Clock::now() > deadline_)
        return fail_code(ExitCode::timed_out, "deadline passed in phase {}: {}", phase_, waiting());
    return {};
}

}  // namespace cairn::capture
