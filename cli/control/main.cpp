// cairn-control VERB: asks the session's coordinator and shows the answer. Verbs: checkpoint, list, status,
// interval, kill, quit.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "cli/control/looks.h"
#include "cli/control/options.h"
#include "cli/control/progress.h"
#include "cli/control/text.h"
#include "cli/member_memory.h"
#include "common/client.h"
#include "common/error.h"
#include "common/json_text.h"
#include "common/layout.h"
#include "common/session.h"
#include "common/wire/events.h"

namespace cairn::control {
namespace {

using nlohmann::json;

// For what the coordinator answers at once, or after its own 5 s.
constexpr std::chrono::seconds patience{10};
// What has just been started is waited for: a second.
constexpr std::chrono::milliseconds between_tries{20};
constexpr int most_tries = 50;

void print_json(const json& value) {
    fmt::print("{}\n", json_text(value, 2));
}

// What only the protocol needs.
json without_envelope(json event) {
    event.erase("event");
    event.erase("code");
    return event;
}

Result<std::vector<pid_t>> members(CoordinatorClient& coordinator) {
    std::vector<pid_t> programs;
    const auto keep = [&](const json& event) {
        if (event.value("event", "") != "process") return;
        const auto process = wire::glean<wire::Process>(event);
        if (!process.host) programs.push_back(process.real.number());
    };
    CHECK_OK(error_of(coordinator.ask({{"verb", "list"}}, keep, patience)));
    return programs;
}

// `cairn launch PROGRAM & cairn checkpoint --witness`: the program may be about to come, as for the
// checkpoint itself.
Result<std::string> look_at_members(CoordinatorClient& coordinator, const Session& session) {
    auto programs = TRY(members(coordinator));
    for (int tries = 0; programs.empty() && tries < most_tries; ++tries) {
        std::this_thread::sleep_for(between_tries);
        programs = TRY(members(coordinator));
    }
    return take_looks(programs, session.region());
}

// A checkpoint is a good one without looks as well.
void say_unkept(const Result<>& kept) {
    if (!kept) fmt::print(stderr, "cairn: --witness: {}\n", printable(kept.error().what));
}

Result<> checkpoint(CoordinatorClient& coordinator, const Session& session, const Options& options) {
    const wire::AskCheckpoint request{.kill = options.kill,
                                      .self_contained = options.self_contained,
                                      .track_mem = options.track_mem,
                                      .without_strangers = options.without_strangers,
                                      .ckptdir = options.checkpoint_folder,
                                      .external = options.external,
                                      .landlock = options.landlock,
                                      .files = options.files,
                                      .compress = options.compress,
                                      .with = options.with,
                                      .timeout = options.timeout};
    std::string looks;
    if (options.witness) looks = TRY(look_at_members(coordinator, session));
    Progress progress(!options.quiet && !options.json);
    // No limit of ours while the coordinator lives: it has a deadline for each phase, and writing may take as
    // long as it moves.
    auto done = coordinator.ask(
        pack(request), [&](const json& event) { progress.show(event); }, std::chrono::milliseconds(-1));
    progress.clear();
    if (!done) return std::unexpected(std::move(done.error()).in("checkpoint given up, the programs go on"));
    if (options.witness) say_unkept(keep_looks(done->value("directory", ""), looks));
    if (options.json)
        print_json(without_envelope(*done));
    else if (!options.quiet)
        fmt::print("{}", checkpoint_text(*done));
    return {};
}

Result<> list(CoordinatorClient& coordinator, const Options& options) {
    std::vector<json> processes;
    const auto keep = [&](const json& event) {
        if (event.value("event", "") != "process") return;
        json process = without_envelope(event);
        if (!process.contains("memory"))
            process["memory"] = member_memory(wire::glean<wire::Process>(event).real.number());
        processes.push_back(std::move(process));
    };
    const auto done = coordinator.ask({{"verb", "list"}}, keep, patience);
    if (!done) return std::unexpected(done.error());
    if (options.json)
        print_json(json(processes));
    else
        fmt::print("{}", process_table(processes));
    return {};
}

Result<> simple(CoordinatorClient& coordinator, const Options& options) {
    json request{{"verb", options.verb}};
    if (options.seconds) request["seconds"] = *options.seconds;
    const auto done = coordinator.ask(request, {}, patience);
    if (!done) return std::unexpected(done.error());
    if (options.json) {
        print_json(without_envelope(*done));
        return {};
    }
    if (options.verb == "status") {
        fmt::print("{}", status_text(*done));
    } else if (options.verb == "kill") {
        fmt::print("{} ended\n", done->value("killed", 0));
    } else if (options.verb == "interval") {
        const double every = done->value("interval", 0.0);
        fmt::print("{}\n", every > 0 ? "a checkpoint every " + duration(every)
                                     : std::string("checkpoints only when asked"));
    } else if (const int left = done->value("processes", 0); left > 0) {
        fmt::print("coordinator ended; {} {} on without it (`cairn coordinator` takes over)\n", left,
                   left == 1 ? "process goes" : "processes go");
    } else {
        fmt::print("coordinator ended\n");
    }
    return {};
}

// `cairn launch PROGRAM & cairn checkpoint`: a coordinator may be about to be started.
Result<CoordinatorClient> connect(const Session& session, const std::string& verb) {
    for (int tries = 0;; ++tries) {
        auto found = CoordinatorClient::connect(session);
        if (found || verb != "checkpoint" || found.error().code != ExitCode::no_coordinator ||
            tries == most_tries)
            return found;
        std::this_thread::sleep_for(between_tries);
    }
}

// Unwinding needs libraries that nothing else here does: another program has them.
Result<> become_stacks(const Options& options) {
    std::string program = own_program("cairn-stacks");
    if (program.empty())
        return fail("cairn-stacks isn't where cairn's programs are (scripts/build builds it)");
    std::vector<std::string> words{"cairn list", "--session", session_name(options.session)};
    if (options.json) words.emplace_back("--json");
    if (!options.stacks) words.emplace_back("--waits");
    words.emplace_back("--");
    words.insert(words.end(), options.pids.begin(), options.pids.end());
    std::vector<char*> argv;
    argv.reserve(words.size() + 1);
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    ::execv(program.c_str(), argv.data());
    return fail_errno("{}", program);
}

Result<> run(const Options& options) {
    if (options.stacks || options.waits) return become_stacks(options);
    const auto session = find_session(session_name(options.session));
    if (!session) return fail("{}", session.error());
    auto coordinator = TRY(connect(*session, options.verb));
    if (options.verb == "checkpoint") return checkpoint(coordinator, *session, options);
    if (options.verb == "list") return list(coordinator, options);
    return simple(coordinator, options);
}

bool known(std::string_view verb) {
    for (const std::string_view name : {"checkpoint", "list", "status", "interval", "kill", "quit"})
        if (verb == name) return true;
    return false;
}

Result<> main_of(std::span<char* const> words) {
    if (words.empty() || !known(words[0]))
        return fail_code(ExitCode::usage, "usage: cairn checkpoint|list|status|interval|kill|quit [OPTIONS]");
    const auto options = TRY(read_options(words));
    CHECK_OK(run(options));
    if (std::fflush(stdout) != 0) return fail_errno("writing to stdout");
    return {};
}

}  // namespace
}  // namespace cairn::control

int main(int argc, char** argv) {
    try {
        const auto done = cairn::control::main_of(std::span<char* const>(argv + 1, argv + std::max(argc, 1)));
        if (done) return 0;
        fmt::print(stderr, "cairn: {}\n", cairn::printable(done.error().what));
        return static_cast<int>(done.error().code);
    } catch (const std::exception& problem) {
        fmt::print(stderr, "cairn: {}\n", cairn::printable_lines(problem.what()));
        return static_cast<int>(cairn::ExitCode::failed);
    }
}
