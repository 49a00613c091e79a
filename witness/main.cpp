// cairn-witness: writes down what the kernel shows of processes that stand still, and compares what was seen
// before a checkpoint with what is seen after a restart. It shares no code with what saves and restores
// (docs/witness.md).
#include <sys/types.h>

#include <boost/program_options.hpp>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "witness/compare.h"
#include "witness/ids.h"
#include "witness/look.h"

namespace {

using namespace cairn;
namespace options = boost::program_options;

int say(const Error& error) {
    std::cerr << "cairn-witness: " << error.what << '\n';
    return static_cast<int>(error.code);
}

Result<std::vector<witness::Facts>> read(const std::vector<std::string>& paths) {
    std::vector<witness::Facts> looks;
    for (const std::string& path : paths) looks.push_back(TRY(witness::Facts::read(path)));
    return looks;
}

int compare(const std::vector<std::string>& before, const std::vector<std::string>& after,
            witness::Programs programs) {
    const auto first = read(before), second = read(after);
    if (!first) return say(first.error());
    if (!second) return say(second.error());
    const auto differences = witness::differences(*first, *second, programs);
    for (const auto& each : differences)
        std::cout << each.name << ": " << each.before.value_or("(not there)") << " -> "
                  << each.after.value_or("(not there)") << '\n';
    return differences.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    using Words = std::vector<std::string>;
    options::options_description visible(
        "cairn-witness [--region FILE] PID... > LOOK.json: what the kernel shows of processes and of all "
        "below "
        "them\n"
        "cairn-witness --before LOOK.json... --after LOOK.json...: what is different, exit code 1 if "
        "anything is; what is\n"
        "    different between the looks before moves by itself and isn't compared\n"
        "cairn-witness --rules: what isn't compared, and why");
    visible.add_options()("help,h", "this")("before", options::value<Words>()->multitoken(), "looks")(
        "after", options::value<Words>()->multitoken(), "looks")(
        "living", "the programs went on between the looks: what they do isn't compared, only what they have")(
        "region", options::value<std::string>(),
        "the file `region` of the session: ids are written down as its programs know them, who may have "
        "others "
        "in the kernel")("rules", "the rules");
    options::options_description all;
    all.add(visible).add_options()("process", options::value<std::vector<pid_t>>());
    options::positional_options_description rest;
    rest.add("process", -1);
    options::variables_map given;
    try {
        options::store(options::command_line_parser(argc, argv).options(all).positional(rest).run(), given);
    } catch (const options::error& problem) {
        std::cerr << "cairn-witness: " << problem.what() << "; --help tells more\n";
        return static_cast<int>(ExitCode::usage);
    }
    if (given.contains("help")) return std::cout << visible << '\n', 0;
    if (given.contains("rules")) return std::cout << witness::rules_as_text(), 0;
    if (given.contains("before") && given.contains("after"))
        return compare(given["before"].as<Words>(), given["after"].as<Words>(),
                       given.contains("living") ? witness::Programs::go_on : witness::Programs::stand_still);
    if (!given.contains("process") || given.contains("before") || given.contains("after")) {
        std::cerr << "cairn-witness: whom is it to look at, or what to compare (--before and --after)? "
                     "--help tells more\n";
        return static_cast<int>(ExitCode::usage);
    }
    auto facts = witness::look(given["process"].as<std::vector<pid_t>>());
    if (!facts) return say(facts.error());
    if (given.contains("region")) {
        const auto ids = witness::Ids::of_region(given["region"].as<std::string>());
        if (!ids) return say(ids.error());
        facts = witness::translated(*facts, *ids);
    }
    std::cout << facts->json().dump(0, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
    return 0;
}
