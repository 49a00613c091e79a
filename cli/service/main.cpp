// cairn-service: services of systemd's whose programs outlive a reboot (docs/services.md).
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <span>
#include <string_view>

#include "cli/service/report.h"
#include "cli/service/run.h"
#include "common/printable.h"

namespace cairn::service {
namespace {

constexpr const char* usage =
    "usage: cairn service run|status|check|forget [OPTIONS] NAME\n"
    "programs as a service that goes on after a reboot where it was saved\n"
    "\n"
    "  run                what a unit of systemd's runs: go on from the newest good checkpoint, or begin; "
    "save\n"
    "                     regularly, at SIGHUP, and at SIGTERM, with which the programs end\n"
    "  status             whether it runs, and its newest checkpoint\n"
    "  check              whether its next start would work; exit code 3 if not\n"
    "  forget             remove its checkpoints: the next start begins anew\n"
    "      --system       a service of the machine's, /etc/cairn/services/NAME.conf; so for root\n"
    "      --user         a user's, $XDG_CONFIG_HOME/cairn/services/NAME.conf; so for everybody else\n"
    "  -j, --json         status, check: print one JSON object\n"
    "\n"
    "`systemctl enable --now cairn@NAME`, or `systemctl --user ...`, runs it. The file has a line\n"
    "program=COMMAND for each program; docs/services.md tells more.\n";

struct Asked {
    std::string verb, name;
    Owner owner = ::geteuid() == 0 ? Owner::system : Owner::user;
    bool json = false, help = false;
};

Result<Asked> read_words(std::span<char* const> words) {
    Asked asked;
    for (const std::string_view word : words) {
        if (word == "--help" || word == "-h")
            asked.help = true;
        else if (word == "--system")
            asked.owner = Owner::system;
        else if (word == "--user")
            asked.owner = Owner::user;
        else if (word == "--json" || word == "-j")
            asked.json = true;
        else if (word.starts_with('-') || (!asked.verb.empty() && !asked.name.empty()))
            return fail_code(ExitCode::usage, "service: '{}' isn't understood; see `cairn help service`",
                             word);
        else
            (asked.verb.empty() ? asked.verb : asked.name) = word;
    }
    return asked;
}

Result<int> main_of(std::span<char* const> words) {
    const Asked asked = TRY(read_words(words));
    if (asked.help) {
        fmt::print("{}", usage);
        return std::fflush(stdout) == 0 ? 0 : 1;
    }
    const bool known =
        asked.verb == "run" || asked.verb == "status" || asked.verb == "check" || asked.verb == "forget";
    if (!known || asked.name.empty()) return fail_code(ExitCode::usage, "{}", usage);
    const Settings settings = TRY(read_settings(asked.name, asked.owner));
    if (asked.verb == "run") return run(settings);
    if (asked.verb == "status") return show_status(settings, asked.json);
    if (asked.verb == "check") return check(settings, asked.json);
    return forget(settings);
}

}  // namespace
}  // namespace cairn::service

int main(int argc, char** argv) {
    try {
        const auto done = cairn::service::main_of(std::span<char* const>(argv + 1, argv + std::max(argc, 1)));
        if (done) return *done;
        fmt::print(stderr, "cairn: {}\n", cairn::printable_lines(done.error().what));
        return static_cast<int>(done.error().code);
    } catch (const std::exception& problem) {
        fmt::print(stderr, "cairn: {}\n", cairn::printable_lines(problem.what()));
        return static_cast<int>(cairn::ExitCode::failed);
    }
}
