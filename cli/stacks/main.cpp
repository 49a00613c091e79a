// cairn-stacks: what the threads of a session's processes are in (`cairn list --stacks`, and w in the
// coordinator's console). A program of its own, because libdw is loaded by nobody else but cairn-inspect.
#include <fmt/format.h>

#include <boost/program_options.hpp>
#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>

#include "cli/stacks/living.h"
#include "common/json_text.h"
#include "common/session.h"

namespace {

using namespace cairn;
namespace po = boost::program_options;

Result<> run(const po::variables_map& given) {
    const auto session = find_session(session_name(given["session"].as<std::string>()));
    if (!session) return fail("{}", session.error());
    auto coordinator = TRY(CoordinatorClient::connect(*session));
    auto members = TRY(stacks::members_of(coordinator, given["pid"].as<std::vector<std::int32_t>>()));
    const bool json = given["json"].as<bool>(), waits = given["waits"].as<bool>();
    auto objects = nlohmann::json::array();
    std::vector<stacks::LivingProcess> lines;
    if (members.empty() && !json) fmt::print("no processes\n");
    const auto none = members.empty();
    CHECK_OK(stacks::look_at(coordinator, *session, std::move(members), [&](stacks::LivingProcess process) {
        if (json)
            objects.push_back(as_json(process));
        else if (waits)
            lines.push_back(std::move(process));
        else
            fmt::print("{}", as_text(process));
    }));
    if (json) fmt::print("{}\n", json_text(objects, 2));
    if (waits && !json && !none) fmt::print("{}", stacks::waits_table(lines));
    if (std::fflush(stdout) != 0) return fail_errno("writing to stdout");
    return {};
}

int complain(const Error& error) {
    fmt::print(stderr, "cairn: {}\n", printable(error.what));
    return static_cast<int>(error.code);
}

}  // namespace

int main(int argc, char** argv) {
    po::options_description known;
    known.add_options()("session,s", po::value<std::string>()->default_value(""))(
        "json,j", po::bool_switch())("waits", po::bool_switch())(
        "pid", po::value<std::vector<std::int32_t>>()->default_value({}, ""));
    po::positional_options_description positional;
    positional.add("pid", -1);
    try {
        po::variables_map given;
        po::store(po::command_line_parser(argc, argv).options(known).positional(positional).run(), given);
        const auto done = run(given);
        return done ? 0 : complain(done.error());
    } catch (const po::error& problem) {
        return complain(
            {fmt::format("list --stacks: {}; see `cairn help list`", problem.what()), 0, ExitCode::usage});
    } catch (const std::exception& problem) {
        return complain({problem.what()});
    }
}
