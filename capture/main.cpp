// cairn-capture: takes one checkpoint for its coordinator, or only looks at what threads are in.
// docs/capture-protocol.md.
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "capture/checkpoint.h"
#include "capture/glance.h"
#include "capture/session_regions.h"
#include "common/fd.h"
#include "common/json_text.h"
#include "common/message_descriptors.h"
#include "common/own_process.h"
#include "common/schema/json.h"
#include "common/wire/capture.h"
#include "common/wire/glance.h"

namespace cairn::capture {
namespace {

constexpr int coordinator_fd = 3;

std::vector<SessionRegions::Other> other_users(const wire::CaptureRequest& asked) {
    std::vector<SessionRegions::Other> others;
    for (const auto& one : asked.regions) others.push_back({one.user, one.path});
    return others;
}

std::map<pid_t, SessionRegions::Known> known_members(const wire::CaptureRequest& asked) {
    std::map<pid_t, SessionRegions::Known> known;
    for (const auto& one : asked.members)
        if (one.born_ns) known[one.pid.number()] = {*one.born_ns, one.door.value_or(ProgramAddress())};
    return known;
}

// The coordinator hands its CAIRN_* variables on.
bool asks_for_sync() {
    const char* value = std::getenv("CAIRN_SYNC");
    return value != nullptr && std::string_view(value) == "1";
}

Request request_of(const wire::CaptureRequest& asked) {
    Request request{.directory = asked.directory,
                    .cid = asked.cid,
                    .session = asked.session,
                    .pages = asked.region.substr(0, asked.region.rfind('/') + 1) + "pages",
                    .generation = asked.generation,
                    .capture = asked.capture,
                    .self_contained = asked.self_contained,
                    .track_mem = asked.track_mem,
                    .marks = {},
                    .external = external_policy(asked.external).value_or(ExternalPolicy::reset),
                    .landlock = landlock_policy(asked.landlock).value_or(LandlockPolicy::refuse),
                    .files = asked.files,
                    .with = asked.with,
                    .compression = compression_named(asked.compress).value_or(Compression()),
                    .hold = asked.hold,
                    .members = {},
                    .host = asked.host,
                    .without_strangers = asked.without_strangers,
                    .joint = asked.joint,
                    .sync_files = asks_for_sync()};
    for (const auto& member : asked.members) request.members.push_back(member.pid.number());
    return request;
}

// Where a memory limit is met, the kernel kills a copy-on-write child first (capture/snapshot.cpp). Its
// memory isn't free while we read it (mem_rw of fs/proc/base.c holds it), and if what we need meanwhile is
// refused as well the next one has to go: this process, and no program.
void go_before_programs() {
    if (const Fd file(::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC)); file)
        (void)!::write(file.get(), "999", 3);
}

void take_signals() {
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
}

int run() {
    // Whatever the coordinator was started under; it says itself what can't be changed.
    (void)stand_alone();
    go_before_programs();
    take_signals();

    std::string message(1 << 20, '\0');
    std::vector<Fd> descriptors;
    const ssize_t got = receive_with(coordinator_fd, message, descriptors, 0);
    if (got <= 0) return static_cast<int>(ExitCode::usage);
    message.resize(static_cast<std::size_t>(got));
    const auto asked = wire::unpack<wire::CaptureRequest>(nlohmann::json::parse(message, nullptr, false));
    if (!asked) return static_cast<int>(ExitCode::usage);
    Request request = request_of(*asked);
    for (std::size_t i = 0; i < asked->marks.size() && i < descriptors.size(); ++i)
        request.marks.push_back({asked->marks[i].pid.number(), asked->marks[i].image,
                                 std::make_shared<Fd>(std::move(descriptors[i]))});
    Reporter reporter(coordinator_fd, std::chrono::milliseconds(asked->deadline_ms));
    auto regions = SessionRegions::open(asked->region, other_users(*asked), known_members(*asked));
    const auto finished = [&](const schema::Manifest& manifest, const std::vector<KeptMarks>& kept) {
        std::vector<wire::MarksOf> marks;
        std::vector<int> numbers;
        for (const auto& each : kept) {
            marks.push_back({KernelId(each.pid), each.image});
            numbers.push_back(each.userfault->get());
        }
        const std::string done = json_text(pack(wire::CaptureDone{.pause_ns = manifest.pause_ns,
                                                                  .bytes = manifest.bytes,
                                                                  .notes = manifest.notes,
                                                                  .marks = std::move(marks),
                                                                  .manifest = schema::to_json(manifest)}));
        // the one message that has to arrive: may block, unlike progress
        (void)!send_with(coordinator_fd, done, numbers, MSG_NOSIGNAL);
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
        reporter.failed(done.error());
        return static_cast<int>(ExitCode::failed);
    }
    return static_cast<int>(ExitCode::ok);
}

template <class Number>
bool is_number(std::string_view word, Number& number) {
    const auto [end, problem] = std::from_chars(word.data(), word.data() + word.size(), number);
    return problem == std::errc() && end == word.data() + word.size();
}

struct Wanted {
    pid_t pid = 0;
    python::Interpreter python{};
};

// PID, or PID:MINOR:ADDRESS of one that has Python 3.MINOR, the address in hexadecimal.
bool is_wanted(std::string_view word, Wanted& wanted) {
    const auto colon = word.find(':');
    if (!is_number(word.substr(0, colon), wanted.pid)) return false;
    if (colon == std::string_view::npos) return true;
    const auto second = word.find(':', colon + 1);
    if (second == std::string_view::npos) return false;
    std::uint64_t address = 0;
    const auto text = word.substr(second + 1);
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), address, 16);
    wanted.python.runtime = ProgramAddress(address);
    return problem == std::errc() && end == text.data() + text.size() &&
           is_number(word.substr(colon + 1, second - colon - 1), wanted.python.minor);
}

// REGION [USER=REGION...] PID[:MINOR:ADDRESS]...: of each process a message on standard output, its length in
// eight bytes before it.
int run_glance(std::span<char* const> words) {
    (void)stand_alone();
    take_signals();
    std::vector<SessionRegions::Other> others;
    std::vector<Wanted> all;
    for (const std::string_view word : words.subspan(std::min<std::size_t>(words.size(), 1))) {
        const auto equals = word.find('=');
        uid_t user = 0;
        Wanted wanted;
        if (equals != std::string_view::npos && is_number(word.substr(0, equals), user))
            others.push_back({user, std::string(word.substr(equals + 1))});
        else if (is_wanted(word, wanted))
            all.push_back(wanted);
        else
            return static_cast<int>(ExitCode::usage);
    }
    if (all.empty()) return static_cast<int>(ExitCode::usage);
    const auto regions = SessionRegions::open(words.front(), others, {});
    if (!regions) {
        std::fputs((printable(regions.error().what) + "\n").c_str(), stderr);
        return static_cast<int>(regions.error().code);
    }
    for (const Wanted& each : all) {
        const auto packed = nlohmann::json::to_msgpack(pack(glance(*regions, each.pid, each.python)));
        const std::uint64_t size = packed.size();
        if (std::fwrite(&size, sizeof size, 1, stdout) != 1 ||
            std::fwrite(packed.data(), 1, packed.size(), stdout) != packed.size() || std::fflush(stdout) != 0)
            return static_cast<int>(ExitCode::failed);
    }
    return static_cast<int>(ExitCode::ok);
}

}  // namespace
}  // namespace cairn::capture

int main(int argc, char** argv) {
    const std::span<char* const> words(argv, static_cast<std::size_t>(argc));
    if (words.size() > 2 && std::string_view(words[1]) == "glance")
        return cairn::capture::run_glance(words.subspan(2));
    return cairn::capture::run();
}
