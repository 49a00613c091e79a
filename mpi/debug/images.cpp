#include "mpi/debug/images.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <string_view>

#include "common/layout.h"
#include "common/message_descriptors.h"
#include "common/outside_mark.h"
#include "mpi/debug/history.h"
#include "mpi/debug/image_address.h"

namespace cairn::mpi::debug {
namespace {

double seconds_now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double wall_clock() {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Result<Fd> listen_at(const std::array<std::uint64_t, 2>& name) {
    sockaddr_un address{};
    const socklen_t size = image_address(address, name[0], name[1]);
    Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (!socket) return fail_errno("a socket");
    if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0)
        return errno == EADDRINUSE ? Result<Fd>(fail("another debugger is just bringing it back"))
                                   : Result<Fd>(fail_errno("the name of a socket"));
    if (::listen(socket.get(), 1) != 0) return fail_errno("a socket");
    return socket;
}

Result<> give_outputs(int socket, const Fd (&output)[2]) {
    int ends[2];
    Fd owned[2];
    for (int i = 0; i < 2; ++i) {
        owned[i].reset(
            ::open(fmt::format("/proc/self/fd/{}", output[i].get()).c_str(), O_WRONLY | O_CLOEXEC));
        if (!owned[i]) return fail_errno("a pipe's other end");
        ends[i] = owned[i].get();
    }
    constexpr std::string_view anything("\0", 1);
    if (send_with(socket, anything, ends, MSG_NOSIGNAL) != 1) return fail_errno("speaking to what came back");
    return {};
}

bool is_readable_within(int socket, int milliseconds) {
    pollfd waiting{socket, POLLIN, 0};
    return ::poll(&waiting, 1, milliseconds) > 0;
}

}  // namespace

Images::~Images() {
    constexpr double longest = 5;  // that the user waits for the last one at the end
    if (saving_) {
        for (const double until = seconds_now() + longest;
             !has_ended(saving_->tool) && seconds_now() < until;)
            ::poll(nullptr, 0, 5);
        if (!has_ended(saving_->tool)) ::kill(saving_->tool, SIGKILL);
        look(true);
    }
    for (const pid_t each : coordinators_) end_tool(each);
}

Result<std::string> Images::session() {
    std::string name = fmt::format("rank-{:04}", ++sessions_);
    coordinators_.insert(TRY(tools_.coordinator(name, tools_.scratch())));
    return name;
}

// The mark says to a checkpoint that none of the rank's copies belongs to the session, but for the one that
// has registered.
std::vector<std::string> Images::launch_words(const std::string& session) const {
    return {own_program("cairn"), "launch", "--session", session, "--", "/usr/bin/env", outside_mark};
}

Result<std::array<std::uint64_t, 2>> Images::name() {
    std::array<std::uint64_t, 2> name{};
    if (::getrandom(name.data(), sizeof name, 0) != sizeof name) return fail_errno("a name");
    return name;
}

bool Images::wants(int rank, const Spot& spot, double at) {
    if (!making_ || only_when_asked_) return false;
    look(false);
    if (saving_ || !making_ || wall_clock() < not_before_) return false;
    if (!store_.has_beginning(rank)) return spot == Spot{};
    return std::ranges::all_of(store_.images(), [&](const Image& each) {
        return each.rank != rank || std::abs(each.at - at) >= spacing_;
    });
}

void Images::tell(const std::string& what) {
    told_ = what;
    note_(what);
}

void Images::give_up(const std::string& why) {
    making_ = false;
    tell("no more images are made: " + why);
}

void Images::make(RankProcess sleeper, Image image, const std::string& session) {
    constexpr int longest = 5'000;
    if (!is_readable_within(sleeper.socket(), longest)) return tell("no image: the copy doesn't fall asleep");
    auto folder = store_.begin();
    if (!folder) return give_up(folder.error().what);
    auto tool = tools_.start({"cairn", "checkpoint", "--session", session, "--without-strangers",
                              "--landlock", "drop", "--kill", "--quiet", "--ckptdir", *folder},
                             "checkpoint");
    if (!tool) return give_up(tool.error().what);
    saving_.emplace(std::move(sleeper), std::move(image), *tool, wall_clock());
}

std::string Images::what_goes_on() const {
    const double now = wall_clock();
    if (saving_)
        return fmt::format("the image of rank {} behind event {} is being written, for {:.1f} s now",
                           saving_->image.rank, saving_->image.event, now - saving_->since);
    if (!making_ && store_.making()) return "no more images are made";
    if (now >= not_before_) return "";
    return fmt::format("the next image is begun in {:.1f} s at the earliest: the last took long",
                       not_before_ - now);
}

void Images::look(bool wait) {
    if (!saving_) return;
    // Nobody waits for it, but none comes behind it either.
    constexpr double longest = 120;
    if (wall_clock() - saving_->since > longest && !has_ended(saving_->tool)) {
        ::kill(saving_->tool, SIGKILL);
        wait = true;
    }
    if (!wait && !has_ended(saving_->tool)) return;
    const int code = code_of(saving_->tool);
    Saving saved = std::move(*saving_);
    saving_.reset();
    const std::string which =
        fmt::format("an image of rank {} behind event {}", saved.image.rank, saved.image.event);
    if (code != 0) {
        static_cast<void>(store_.begin());  // takes away what is there
        constexpr unsigned most_failures = 3;
        tell(fmt::format("{} isn't made: {}", which,
                         code > 128 ? "it takes too long" : tools_.said_in("checkpoint")));
        if (++failures_ == most_failures) give_up("three have failed one after another");
        return;
    }
    failures_ = 0;
    // What it takes of the processor and the disk stays small.
    constexpr double pauses = 4;
    not_before_ = store_.made_at() + (store_.made_at() - saved.since) * pauses;
    const auto added = store_.add(std::move(saved.image), most_);
    if (!added) return give_up(added.error().what);
    if (!*added) spacing_ *= 2;  // as dense as that there is no room for them
}

Result<> Images::finish(int rank, const Spot& spot) {
    while (saving_ && !has_ended(saving_->tool)) {
        if (interrupted != 0) ::kill(saving_->tool, SIGKILL);
        constexpr int moment = 5;  // ms
        ::poll(nullptr, 0, moment);
    }
    look(true);
    const bool there = std::ranges::any_of(
        store_.images(), [&](const Image& each) { return each.rank == rank && each.spot == spot; });
    if (interrupted != 0) return fail("interrupted");
    return there ? Result<>() : Result<>(fail("{}", told_));
}

Result<Images::Back> Images::bring_back(Image image, const Fd (&output)[2]) {
    auto back = wake(image, output);
    if (back || interrupted != 0) return back;
    store_.forget(image);
    return fail("the image of rank {} behind event {} can't be brought back: {}", image.rank, image.event,
                back.error().what);
}

Result<Images::Back> Images::wake(const Image& image, const Fd (&output)[2]) {
    const Fd listening = TRY(listen_at(image.name));
    const std::string name = TRY(session());
    const Adopting adopting;
    const pid_t tool = TRY(tools_.start(
        {"cairn", "restart", "--quiet", "--session", name, "--files", "use", image.folder}, "restart"));
    // Its end is that of the process, until this one has taken it over.
    const auto refuse = [&](const std::string& why) {
        end_tool(tool);
        return fail("{}", why);
    };
    while (!is_readable_within(listening.get(), 20)) {
        if (interrupted != 0) return refuse("interrupted");
        if (has_ended(tool)) return refuse(tools_.said_in("restart"));
    }
    Fd socket(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
    ucred peer{};
    socklen_t size = sizeof peer;
    if (!socket || ::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 ||
        peer.uid != ::getuid())
        return refuse("somebody else answers");
    if (auto given = give_outputs(socket.get(), output); !given) return refuse(given.error().what);
    char byte = 0;
    if (!is_readable_within(socket.get(), 20'000) || ::recv(socket.get(), &byte, 1, 0) != 1)
        return refuse("it doesn't answer");
    end_tool(tool);
    if (::send(socket.get(), &byte, 1, MSG_NOSIGNAL) != 1) return fail("it has ended");
    return Back{RankProcess(peer.pid, std::move(socket)), name};
}

}  // namespace cairn::mpi::debug
