// cairn-capture: takes one checkpoint for its coordinator. docs/capture-protocol.md.
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "capture/checkpoint.h"
#include "capture/session_regions.h"
#include "common/fd.h"
#include "common/json_text.h"
#include "common/own_process.h"
#include "common/schema/json.h"

namespace cairn::capture {
namespace {

constexpr int coordinator_fd = 3;

std::vector<SessionRegions::Other> other_users(const nlohmann::json& request) {
    std::vector<SessionRegions::Other> others;
    for (const auto& one : request.value("regions", nlohmann::json::array()))
        others.push_back({one.value("user", uid_t{0}), one.value("path", "")});
    return others;
}

std::map<pid_t, SessionRegions::Known> known_members(const nlohmann::json& members) {
    std::map<pid_t, SessionRegions::Known> known;
    for (const auto& one : members)
        if (one.contains("born_ns"))
            known[one.value("pid", 0)] = {one.value("born_ns", std::uint64_t{0}),
                                          one.value("door", std::uint64_t{0})};
    return known;
}

int run() {
    // Whatever the coordinator was started under; it says itself what can't be changed.
    (void)stand_alone();
    // SIGCHLD is waited for (stop/stop.cpp); a write to a coordinator that has gone is an error, not a death.
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGINT);  // Ctrl-C at the console is the coordinator's
    ::sigprocmask(SIG_BLOCK, &set, nullptr);
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);  // seize.cpp
    ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
    ::signal(SIGPIPE, SIG_IGN);

    std::string message(1 << 20, '\0');
    const ssize_t got = ::recv(coordinator_fd, message.data(), message.size(), 0);
    if (got <= 0) return static_cast<int>(ExitCode::usage);
    message.resize(static_cast<std::size_t>(got));
    const auto json = nlohmann::json::parse(message, nullptr, false);
    if (json.is_discarded() || !json.is_object()) return static_cast<int>(ExitCode::usage);

    Request request;
    request.directory = json.value("directory", "");
    request.cid = json.value("cid", "");
    request.session = json.value("session", "");
    request.generation = json.value("generation", 0);
    request.capture = json.value("capture", std::uint64_t{0});
    request.hold = json.value("hold", false);
    request.self_contained = json.value("self_contained", false);
    request.external = external_policy(json.value("external", "reset")).value_or(ExternalPolicy::reset);
    request.host = json.value("host", "");
    request.without_strangers = json.value("without_strangers", false);
    request.joint = json.value("joint", false);
    const auto members = json.value("members", nlohmann::json::array());
    for (const auto& member : members) request.members.push_back(member.value("pid", 0));

    const std::string region_path = json.value("region", "");
    request.pages = region_path.substr(0, region_path.rfind('/') + 1) + "pages";

    Reporter reporter(coordinator_fd, std::chrono::milliseconds(json.value("deadline_ms", 30000)));
    auto regions = SessionRegions::open(region_path, other_users(json), known_members(members));
    const auto finished = [&](const schema::Manifest& manifest) {
        const std::string done = json_text(nlohmann::json{{"event", "done"},
                                                          {"pause_ns", manifest.pause_ns},
                                                          {"bytes", manifest.bytes},
                                                          {"notes", manifest.notes},
                                                          {"manifest", schema::to_json(manifest)}});
        // the one message that has to arrive: may block, unlike progress
        (void)::send(coordinator_fd, done.data(), done.size(), MSG_NOSIGNAL);
        while (request.hold && !reporter.coordinator_gone()) {
            // A killed process isn't over before its tracer has collected all of its other threads.
            while (::waitpid(-1, nullptr, __WALL | WNOHANG) > 0) {
            }
            ::usleep(1000);
        }
    };
    auto done = regions ? checkpoint(request, *regions, reporter, finished)
                        : std::unexpected(std::move(regions.error()));
    if (!done) {
        if (done.error().number == EFBIG)
            for (const std::string& limit : low_limits()) done.error().what += "; in cairn-capture " + limit;
        reporter.send(json_text(nlohmann::json{{"event", "failed"},
                                               {"reason", printable(done.error().what)},
                                               {"phase", reporter.current()},
                                               {"passing", done.error().passing},
                                               {"code", static_cast<int>(done.error().code)}}));
        return static_cast<int>(ExitCode::failed);
    }
    return static_cast<int>(ExitCode::ok);
}

}  // namespace
}  // namespace cairn::capture

int main() {
    return cairn::capture::run();
}
