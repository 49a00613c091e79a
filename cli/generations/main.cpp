// cairn verify, prune, export and import: what is to be done with generations of checkpoints as a whole.
#include <fmt/format.h>

#include <boost/program_options.hpp>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

#include "cli/generations/archive.h"
#include "cli/generations/prune.h"
#include "cli/generations/verify.h"
#include "common/checkpoint_folder.h"
#include "common/human.h"
#include "common/schema/json.h"

namespace {

using namespace cairn;
namespace options = boost::program_options;
using nlohmann::json;

struct Given {
    std::string file;  // of export and import
    std::vector<std::string> folders;
    generations::PruneWishes wishes;
    bool json = false, dry = false;
};

int report(const std::string& verb, const Error& error) {
    fmt::print(stderr, "cairn {}: {}\n", verb, printable_lines(error.what));
    return static_cast<int>(error.code);
}

Result<Given> read(const std::string& verb, std::span<char* const> words) {
    options::options_description known;
    known.add_options()("json,j", options::bool_switch())("dir", options::value<std::vector<std::string>>());
    if (verb == "prune")
        known.add_options()("keep,k", options::value<std::int64_t>())(
            "older,o", options::value<std::string>())("damaged", options::bool_switch())(
            "dry-run,n", options::bool_switch());
    options::positional_options_description positional;
    const bool of_file = verb == "export" || verb == "import";
    if (of_file) {
        known.add_options()("file", options::value<std::string>());
        positional.add("file", 1);
    }
    positional.add("dir", of_file ? 1 : -1);
    options::variables_map given;
    try {
        const std::vector<std::string> rest(words.begin(), words.end());
        options::store(options::command_line_parser(rest).options(known).positional(positional).run(), given);
    } catch (const options::error& problem) {
        return fail_code(ExitCode::usage, "{}; see `cairn help {}`", problem.what(), verb);
    }
    Given result;
    result.json = given["json"].as<bool>();
    if (given.contains("dir"))
        result.folders = given["dir"].as<std::vector<std::string>>();
    else
        result.folders = {verb == "import" ? usual_checkpoint_folder() : folder_of_old_checkpoints()};
    if (of_file && !given.contains("file"))
        return fail_code(ExitCode::usage, "which file? See `cairn help {}`", verb);
    if (of_file) result.file = given["file"].as<std::string>();
    if (verb != "prune") return result;
    result.dry = given["dry-run"].as<bool>();
    result.wishes.damaged = given["damaged"].as<bool>();
    if (given.contains("older"))
        result.wishes.older = TRY(generations::read_age(given["older"].as<std::string>()));
    if (given.contains("keep")) {
        const auto keep = given["keep"].as<std::int64_t>();
        if (keep < 1 || keep > 1'000'000)
            return fail_code(
                ExitCode::usage,
                "--keep: 1 to 1000000 generations of each computation (the newest is removed by `rm -r` "
                "only)");
        result.wishes.keep = static_cast<std::uint32_t>(keep);
    }
    if (!result.wishes.keep && !result.wishes.older && !result.wishes.damaged)
        return fail_code(
            ExitCode::usage,
            "prune what? --keep N (the newest stay), --older AGE (7d), or --damaged; see `cairn help prune`");
    if (result.wishes.damaged && (result.wishes.keep || result.wishes.older))
        return fail_code(ExitCode::usage,
                         "--damaged goes alone: it removes what isn't whole, and nothing else");
    return result;
}

// Each once, whatever folders were named.
Result<std::vector<generations::Generation>> find_all(const std::vector<std::string>& folders) {
    std::vector<generations::Generation> all;
    std::set<std::string> known;
    for (const auto& folder : folders)
        for (auto& each : TRY(generations::find(folder)))
            if (known.insert(each.folder).second) all.push_back(std::move(each));
    return all;
}

Result<int> verify_all(const Given& given) {
    const auto all = TRY(find_all(given.folders));
    json list = json::array();
    std::size_t whole = 0;
    std::string newest;
    std::int64_t newest_taken = -1;
    for (const auto& each : all) {
        const auto verified = generations::verify(each);
        if (verified.whole()) {
            ++whole;
            if (verified.taken_at_ns > newest_taken) {
                newest_taken = verified.taken_at_ns;
                newest = each.folder;
            }
        }
        list.push_back({{"folder", each.folder},
                        {"whole", verified.whole()},
                        {"bytes", verified.bytes},
                        {"problems", verified.problems}});
        if (given.json) continue;
        fmt::print("{}  {}\n", printable(each.folder),
                   verified.whole() ? "whole, " + human_bytes(verified.bytes) : "DAMAGED");
        for (const auto& problem : verified.problems) fmt::print("  {}\n", printable_lines(problem));
        std::fflush(stdout);
    }
    if (given.json) {
        fmt::print("{}\n", schema::dump({{"generations", std::move(list)}, {"newest_whole", newest}}));
    } else if (whole == all.size()) {
        fmt::print("all of {} whole\n",
                   all.size() == 1 ? "1 generation is" : fmt::format("{} generations are", all.size()));
    } else {
        fmt::print("{} of {} damaged; {}\n", all.size() - whole, human_count(all.size(), "generation"),
                   newest.empty() ? "none is whole" : "the newest whole one is " + printable(newest));
    }
    return whole == all.size() ? 0 : static_cast<int>(ExitCode::damaged);
}

Result<int> prune_all(const Given& given) {
    const auto chosen = generations::choose(TRY(find_all(given.folders)), given.wishes);
    json list = json::array();
    std::uint64_t freed = 0, removed = 0;
    int code = 0;
    for (const auto& each : chosen) {
        const auto bytes = generations::bytes_freed(each.folder);
        if (!given.dry)
            if (auto done = generations::remove(each); !done) {
                code = report("prune", done.error());
                continue;
            }
        freed += bytes;
        ++removed;
        list.push_back({{"folder", each.folder}, {"bytes", bytes}});
        if (!given.json)
            fmt::print("{} {} ({})\n", given.dry ? "would remove" : "removed", printable(each.folder),
                       human_bytes(bytes));
    }
    if (given.json)
        fmt::print("{}\n",
                   schema::dump({{"removed", std::move(list)}, {"bytes", freed}, {"dry_run", given.dry}}));
    else
        fmt::print("{} {}, {}\n", human_count(removed, "generation"), given.dry ? "would go" : "removed",
                   human_bytes(freed));
    return code;
}

// The newest of the folder: `latest`, if it is one of checkpoints.
Result<generations::Generation> newest_in(const std::string& folder) {
    if (auto latest = generations::find(folder + "/latest"); latest) return latest->back();
    auto all = TRY(generations::find(folder));
    return all.back();
}

Result<int> export_one(const Given& given) {
    const auto generation = TRY(newest_in(given.folders.front()));
    const auto bytes = TRY(generations::export_to(given.file, generation));
    if (given.file == "-") return 0;
    if (given.json)
        fmt::print("{}\n",
                   schema::dump({{"folder", generation.folder}, {"file", given.file}, {"bytes", bytes}}));
    else
        fmt::print("{} is in {} ({}); `cairn restart {}` brings it back\n", printable(generation.folder),
                   printable(given.file), human_bytes(bytes), printable(given.file));
    return 0;
}

Result<int> import_one(const Given& given) {
    const auto folder = TRY(generations::import_from(given.file, given.folders.front()));
    if (given.json)
        fmt::print("{}\n", schema::dump({{"folder", folder}}));
    else
        fmt::print("{}\n", printable(folder));
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    const std::string verb = argc > 1 ? argv[1] : "";
    const std::span<char* const> words(argv, static_cast<std::size_t>(argc));
    const auto given = read(verb, words.subspan(std::min<std::size_t>(2, words.size())));
    if (!given) return report(verb, given.error());
    const auto code = verb == "prune"    ? prune_all(*given)
                      : verb == "export" ? export_one(*given)
                      : verb == "import" ? import_one(*given)
                                         : verify_all(*given);
    return code ? *code : report(verb, code.error());
}
