#include "cli/service/session.h"

#include <unistd.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "cli/job/coordinator.h"
#include "common/fd.h"
#include "common/layout.h"
#include "common/session.h"

namespace cairn::service {
namespace {

constexpr std::chrono::seconds patience{20};

Result<nlohmann::json> ask(const char* verb, const std::string& session) {
    const auto answer = TRY(job::run_command({own_program("cairn"), verb, "--json", "--session", session},
                                             patience, job::Errors::taken));
    if (answer.code != 0) return fail_code(ExitCode{answer.code}, "{}", answer.out);
    auto said = nlohmann::json::parse(answer.out, nullptr, false);
    if (said.is_discarded()) return fail("`cairn {} --json` said '{}'", verb, answer.out);
    return said;
}

}  // namespace

Result<SessionState> session_state(const std::string& session) {
    const auto said = TRY(ask("status", session));
    if (!said.is_object()) return fail("`cairn status --json` is no object");
    return SessionState{said.value("state", ""), said.value("processes", std::int64_t{0})};
}

Result<std::set<pid_t>> members_of(const std::string& session) {
    const auto said = TRY(ask("list", session));
    std::set<pid_t> members;
    if (!said.is_array()) return members;
    for (const auto& each : said)
        if (each.is_object() && each.value("foreign", "").empty())
            if (const auto state = each.value("state", ""); state == "running" || state == "stopped")
                members.insert(each.value("real", pid_t{0}));
    return members;
}

bool is_served(const std::string& session) {
    const auto found = find_session(session);
    if (!found) return false;
    const Fd fd(connect_session(*found));
    return static_cast<bool>(fd);
}

Result<> end_programs(const std::string& session) {
    CHECK_OK(
        error_of(job::ask_command({own_program("cairn"), "kill", "--json", "--session", session}, patience)));
    const auto limit = std::chrono::steady_clock::now() + patience;
    while (std::chrono::steady_clock::now() < limit) {
        const auto now = session_state(session);
        if (!now || now->processes == 0) return {};
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return fail_code(ExitCode::timed_out, "the programs of session {} have not ended within {} s", session,
                     patience.count());
}

Result<> end_leftovers(const std::string& session, const std::string& folder) {
    const auto found = find_session(session);
    if (!found) return fail("{}", found.error());
    if (::access(found->region().c_str(), F_OK) != 0) return {};
    CHECK_OK(
        job::start_coordinator({.session = session, .folder = folder, .interval = 0, .keep = 0, .more = {}}));
    const auto now = TRY(session_state(session));
    if (now.processes > 0) {
        job::say(fmt::format("{} of the service are there, though nobody runs it: they are saved and ended",
                             now.processes == 1 ? "a process" : fmt::format("{} processes", now.processes)));
        const auto saved = TRY(job::save_and_end(session));
        if (saved.code != 0) CHECK_OK(end_programs(session));
    }
    job::quit_coordinator(session);
    return {};
}

}  // namespace cairn::service
