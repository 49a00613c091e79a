#include "mpi/debug/web/desk.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

#include "mpi/debug/history.h"

namespace cairn::mpi::debug::web {
namespace {

constexpr int wake_signal = SIGURG;  // ignored by who doesn't know it
constexpr unsigned busy = 409;
constexpr auto patience = std::chrono::seconds(5);  // with a look

Reply no(unsigned status, const std::string& why) {
    return {status, {{"ok", false}, {"busy", status == busy}, {"error", why}}};
}

}  // namespace

Result<std::unique_ptr<Desk>> Desk::open() {
    std::unique_ptr<Desk> desk(new Desk);
    desk->asked_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!desk->asked_) return fail_errno("an eventfd");
    struct sigaction action {};
    action.sa_handler = [](int) {};  // without SA_RESTART: what waits comes back
    ::sigaction(wake_signal, &action, nullptr);
    return desk;
}

void Desk::ask(Asked asked) {
    const std::scoped_lock lock(mutex_);
    const bool works = running_ && !running_->look;
    const bool other = next_ && !next_->look;
    if (works || other) {
        const std::string line = works ? running_->line : next_->line;
        const std::string who = works && running_->terminal ? "at the terminal" : "by a page";
        return asked.respond(no(busy, fmt::format("'{}', asked for {}, isn't over yet: wait for it, or "
                                                  "interrupt it",
                                                  line, who)));
    }
    if (next_) next_->respond(no(busy, "somebody wants to see something else"));
    next_ = std::move(asked);
    const std::uint64_t one = 1;
    static_cast<void>(::write(asked_.get(), &one, sizeof one) + 0);
    if (running_) pressing_ = true;
}

void Desk::give_up(const Respond& respond) {
    const std::scoped_lock lock(mutex_);
    if (!running_) return respond(no(busy, "nothing runs that could be interrupted"));
    pressing_ = true;
    respond({200, {{"ok", true}}});
}

bool Desk::press(std::uint64_t number) {
    const std::scoped_lock lock(mutex_);
    if (!running_ || running_->number != number) return false;
    if (!pressing_ && !(running_->look && std::chrono::steady_clock::now() > running_->until)) return true;
    interrupted = 1;
    ::pthread_kill(owner_, wake_signal);
    return true;
}

void Desk::run(const std::string& line, bool look, bool terminal) {
    running_ = Running{look, line, terminal, ++number_, std::chrono::steady_clock::now() + patience};
    if (repeat_) repeat_([this, number = number_] { return press(number); });
}

std::optional<Asked> Desk::take() {
    const std::scoped_lock lock(mutex_);
    std::uint64_t count = 0;
    static_cast<void>(::read(asked_.get(), &count, sizeof count) + 0);
    if (next_) run(next_->line, next_->look, false);
    return std::exchange(next_, std::nullopt);
}

void Desk::begin(const std::string& line) {
    const std::scoped_lock lock(mutex_);
    run(line, false, true);
}

void Desk::end() {
    const std::scoped_lock lock(mutex_);
    running_.reset();
    pressing_ = false;
    interrupted = 0;
}

}  // namespace cairn::mpi::debug::web
