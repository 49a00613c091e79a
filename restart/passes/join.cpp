#include "restart/passes/join.h"

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "common/client.h"
#include "common/id_list.h"
#include "common/session.h"
#include "restart/old_ids.h"
#include "restart/still_ending.h"

namespace cairn::restart::pass {
namespace {

// A coordinator that we start puts its checkpoints where this one is: D of D/<cid>/<generation>. Not that of
// a copy in another session: it would take the place of the newest one.
void suggest_directory(const Computation& computation, const Session& session) {
    std::error_code error;
    auto folder = std::filesystem::canonical(computation.directory, error).parent_path();
    if (!computation.manifest.hosts.empty()) folder = folder.parent_path();
    if (folder.filename() == computation.manifest.cid && session.name == computation.manifest.session)
        ::setenv("CAIRN_CKPTDIR", folder.parent_path().c_str(), 0);
}

// Of the whole, those of this host where there are several.
std::vector<int> own_parts(const Options& options, const schema::Manifest& manifest) {
    if (!options.parts.empty() || manifest.hosts.empty()) return options.parts;
    for (const auto& host : manifest.hosts)
        if (host.name == manifest.host) return {host.parts.begin(), host.parts.end()};
    return {};
}

// One that we start takes no number that a process or thread had which may get it again. It would have it for
// longer than any restart can wait.
std::vector<std::string> words_for_coordinator(const Options& options, const Computation& computation) {
    constexpr std::size_t longest_word = 100'000;  // MAX_ARG_STRLEN is 128 KiB
    if (options.ids == Ids::virtual_ids) return {};
    const auto ids = id_list(ids_of(computation.processes, leaders_of(computation.processes)));
    if (ids.size() > longest_word) return {};
    return {"--not-ids=" + ids};
}

// A coordinator may take the connection and go before it answers, because the last of its programs left some
// time ago: then the next one is asked.
Result<CoordinatorClient> reach(const Session& session, const std::vector<std::string>& words, bool quiet) {
    constexpr int most_tries = 3;
    for (int tries = 1;; ++tries) {
        auto client = TRY(CoordinatorClient::connect_or_start(session, words));
        auto ended = await_ending(client, quiet);
        if (ended) return client;
        if (ended.error().code != ExitCode::no_coordinator || tries == most_tries)
            return std::unexpected(std::move(ended.error()));
    }
}

}  // namespace

Result<Meeting> join(const Options& options, const Computation& computation) {
    const auto& manifest = computation.manifest;
    const auto session = make_session(options.session.empty() ? manifest.session : options.session);
    if (!session) return fail_code(ExitCode::no_coordinator, "{}", session.error());
    suggest_directory(computation, *session);
    auto client = TRY(reach(*session, words_for_coordinator(options, computation), options.quiet));
    Meeting meeting(*session, std::move(client), computation.directory, options.quiet);
    wire::RestartJoin arriving{.cid = manifest.cid,
                               .directory = computation.directory,
                               .np = manifest.np,
                               .generation = manifest.generation,
                               .part = own_parts(options, manifest)};
    // As go_on_saving() has set them.
    for (const auto& [name, to] :
         {std::pair("CAIRN_FILES", &arriving.files), std::pair("CAIRN_WITH", &arriving.with)})
        if (const char* value = std::getenv(name); value != nullptr) *to = value;
    for (const auto& part : manifest.parts)
        arriving.parts.push_back({.number = part.number,
                                  .host = part.host,
                                  .terminal = part.terminal,
                                  .processes = static_cast<std::int64_t>(part.pids.size())});
    for (const auto i : computation.living)
        arriving.members.push_back(
            {.uid = computation.processes[i].uid, .pid = computation.processes[i].pid});
    CHECK_OK(meeting.arrive(std::move(arriving), options.wait_seconds));
    return meeting;
}

}  // namespace cairn::restart::pass
