// cairn-causality: `cairn causality VERB`.
#include <cstdio>
#include <exception>

#include "causality/lint/lint.h"
#include "causality/tool/verbs.h"
#include "common/printable.h"
#include "common/verb_options.h"

namespace cairn::causality::tool {
namespace {

Result<> run(std::span<char* const> words) {
    if (const auto verb = asks_help(words)) {
        std::fputs(help(*verb).c_str(), stdout);
        return {};
    }
    const auto options = TRY(read_options(words));
    Result<> done;
    if (options.verb == "check") done = check(options);
    if (options.verb == "cuts") done = cuts(options);
    if (options.verb == "places") done = places(options);
    if (options.verb == "zigzag") done = zigzag(options);
    if (options.verb == "recovery-line") done = recovery_line(options);
    if (options.verb == "simulate") done = simulate(options);
    if (options.verb == "lint") done = lint_and_print(options.files, options.json);
    if (options.verb == "convert") done = convert(options);
    if (options.verb == "view") done = view(options);
    if (std::fflush(stdout) != 0 && done) return fail_errno("writing to stdout");
    return done;
}

}  // namespace
}  // namespace cairn::causality::tool

int main(int argc, char** argv) {
    try {
        const auto done =
            cairn::causality::tool::run(std::span<char* const>(argv + 1, argc > 1 ? argv + argc : argv + 1));
        if (done) return 0;
        fmt::print(stderr, "cairn causality: {}\n", cairn::printable_lines(done.error().what));
        return static_cast<int>(done.error().code);
    } catch (const std::exception& problem) {
        fmt::print(stderr, "cairn causality: {}\n", cairn::printable_lines(problem.what()));
        return static_cast<int>(cairn::ExitCode::failed);
    }
}
