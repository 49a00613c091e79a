// cairn-witness: writes down what the kernel shows of processes that stand still, and compares what was seen
// before a checkpoint with what is seen after a restart. It shares no code with what saves and restores
// (docs/witness.md).
#include <sys/types.h>
#include <unistd.h>

#include <boost/program_options.hpp>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "witness/compare.h"
#include "witness/ids.h"
#include "witness/look.h"
#include "witness/report.h"

namespace {

using namespace cairn;
namespace options = boost::program_options;
using Words = std::vector<std::string>;

constexpr const char* usage =
    "cairn witness [--region FILE] [--looks N] PID... > LOOKS.json\n"
    "    what the kernel shows of processes and of all below them\n"
    "cairn witness --before LOOKS.json... --after LOOKS.json...\n"
    "    what is different, exit code 1 if anything is; what is different between the looks before moves by\n"
    "    itself and isn't compared\n"
    "cairn witness [--region FILE] --verify LOOKS.json PID...\n"
    "    looks at programs that run again, and says what they have that is different\n"
    "cairn witness --rules\n"
    "    what isn't compared, and why\n"
    "Options";

int say(const Error& error) {
    std::cerr << "cairn-witness: " << error.what << '\n';
    return static_cast<int>(error.code);
}

int misused(const char* what) {
    std::cerr << "cairn-witness: " << what << "; --help tells more\n";
    return static_cast<int>(ExitCode::usage);
}

Result<std::vector<witness::Facts>> read(const Words& paths) {
    std::vector<witness::Facts> looks;
    for (const std::string& path : paths) {
        auto some = TRY(witness::read_looks(path));
        looks.insert(looks.end(), std::move_iterator(some.begin()), std::move_iterator(some.end()));
    }
    return looks;
}

int compare(const Words& before, const Words& after, witness::Programs programs) {
    const auto first = read(before), second = read(after);
    if (!first) return say(first.error());
    if (!second) return say(second.error());
    const auto differences = witness::differences(*first, *second, programs);
    for (const auto& each : differences) std::cout << witness::as_line(each) << '\n';
    return differences.empty() ? 0 : 1;
}

Result<std::vector<witness::Facts>> take_looks(const options::variables_map& given, int count) {
    std::optional<witness::Ids> ids;
    if (given.contains("region")) ids = TRY(witness::Ids::of_region(given["region"].as<std::string>()));
    std::vector<witness::Facts> looks;
    for (int number = 0; number < count; ++number) {
        constexpr unsigned between_us = 100'000;
        if (number > 0) usleep(between_us);
        auto facts = TRY(witness::look(given["process"].as<std::vector<pid_t>>()));
        looks.push_back(ids ? witness::translated(facts, *ids) : std::move(facts));
    }
    return looks;
}

int look(const options::variables_map& given) {
    const int count = given["looks"].as<int>();
    const auto looks = take_looks(given, count);
    if (!looks) return say(looks.error());
    nlohmann::json all = nlohmann::json::array();
    for (const auto& facts : *looks) all.push_back(facts.json());
    std::cout
        << (count == 1 ? all.front() : all).dump(0, ' ', false, nlohmann::json::error_handler_t::replace)
        << '\n';
    return 0;
}

int verify(const options::variables_map& given) {
    const auto before = witness::read_looks(given["verify"].as<std::string>());
    if (!before) return say(before.error());
    constexpr int enough = 3;
    const auto after = take_looks(given, enough);
    if (!after) return say(after.error());
    const auto differences = witness::differences(*before, *after, witness::Programs::go_on);
    std::cerr << witness::report(differences, before->front().all().size());
    return differences.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    options::options_description visible(usage);
    visible.add_options()("help,h", "this")("before", options::value<Words>()->multitoken(), "looks")(
        "after", options::value<Words>()->multitoken(), "looks")(
        "living", "the programs went on between the looks: what they do isn't compared, only what they have")(
        "rules", "the rules")("looks", options::value<int>()->default_value(1),
                              "so many, one after the other: what is different between them moves by itself")(
        "verify", options::value<std::string>(), "looks that were taken before the checkpoint")(
        "region", options::value<std::string>(),
        "the file `region` of the session: ids are written down as its programs know them, who may have "
        "others "
        "in the kernel");
    options::options_description all;
    all.add(visible).add_options()("process", options::value<std::vector<pid_t>>());
    options::positional_options_description rest;
    rest.add("process", -1);
    options::variables_map given;
    try {
        options::store(options::command_line_parser(argc, argv).options(all).positional(rest).run(), given);
    } catch (const options::error& problem) {
        return misused(problem.what());
    }
    if (given.contains("help")) return std::cout << visible << '\n', 0;
    if (given.contains("rules")) return std::cout << witness::rules_as_text(), 0;
    if (given.contains("before") && given.contains("after"))
        return compare(given["before"].as<Words>(), given["after"].as<Words>(),
                       given.contains("living") ? witness::Programs::go_on : witness::Programs::stand_still);
    if (!given.contains("process") || given.contains("before") || given.contains("after"))
        return misused("whom is it to look at, or what to compare (--before and --after)?");
    if (given["looks"].as<int>() < 1) return misused("--looks: at least one");
    return given.contains("verify") ? verify(given) : look(given);
}
