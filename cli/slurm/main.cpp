// cairn-slurm: makes batch jobs of Slurm's restartable (docs/slurm.md).
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <string_view>

#include "cli/slurm/nodes.h"
#include "cli/slurm/run.h"
#include "common/printable.h"

namespace cairn::slurm {
namespace {

Result<int> main_of(std::span<char* const> words) {
    const std::string_view verb = words.empty() ? "" : words[0];
    if (verb == "--help" || verb == "-h") {
        fmt::print("{}", run_usage);
        return std::fflush(stdout) == 0 ? 0 : 1;
    }
    if (verb == "spawn") {
        CHECK_OK(spawn(words.subspan(1)));
        return 0;
    }
    if (verb != "run") return fail_code(ExitCode::usage, "{}", run_usage);
    if (words.size() > 1 && std::string_view(words[1]) == "--help") return main_of(words.subspan(1));
    const Settings settings = TRY(read_settings(words.subspan(1)));
    return run(settings);
}

}  // namespace
}  // namespace cairn::slurm

int main(int argc, char** argv) {
    try {
        const auto done = cairn::slurm::main_of(std::span<char* const>(argv + 1, argv + std::max(argc, 1)));
        if (done) return *done;
        fmt::print(stderr, "cairn: {}\n", cairn::printable_lines(done.error().what));
        return static_cast<int>(done.error().code);
    } catch (const std::exception& problem) {
        fmt::print(stderr, "cairn: {}\n", cairn::printable_lines(problem.what()));
        return static_cast<int>(cairn::ExitCode::failed);
    }
}
