#include "mpi/debug/console.h"

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>

#include "common/json_text.h"
#include "common/printable.h"
#include "mpi/debug/commands.h"
#include "mpi/debug/open.h"
#include "mpi/debug/output.h"

namespace cairn::mpi::debug {
namespace {

// A line that a rank prints, with the rank in front.
void print_line(bool json, int rank, bool error, const std::string& line) {
    if (json)
        fmt::print("{}\n", json_text(nlohmann::json{
                               {"rank", rank}, {"stream", error ? "stderr" : "stdout"}, {"line", line}}));
    else
        fmt::print("[{}] {}\n", rank, printable(line));
}

void on_interrupt(int) {
    interrupted = 1;
}

void say(bool json, const Result<Answer>& answer) {
    if (answer) {
        nlohmann::json out = {{"ok", true}};
        out.update(answer->json);
        fmt::print("{}", json ? json_text(out) + "\n" : printable_lines(answer->text));
    } else if (json) {
        fmt::print("{}\n", json_text(nlohmann::json{{"ok", false}, {"error", answer.error().what}}));
    } else {
        fmt::print("{}\n", printable_lines(answer.error().what));
    }
    std::fflush(stdout);
}

Result<> converse(World& world, Bounds bounds, const tool::Options& options, Output& output) {
    Commands commands(world, bounds, options.folder);
    const bool json = options.json;
    const bool asked = !json && ::isatty(STDIN_FILENO) != 0;
    const auto begun = TRY(commands.begin(options.from));
    if (!json) say(false, begun);
    std::string last;
    while (!commands.over()) {
        if (asked) {
            const State here = world.state(world.focus());
            fmt::print("({}:{}) ", here.rank, world.moves().call_at(here));
            std::fflush(stdout);
        }
        std::string line;
        if (!std::getline(std::cin, line)) {
            if (interrupted == 0 || !asked) break;
            interrupted = 0;
            std::cin.clear();
            ::clearerr(stdin);
            fmt::print("\n");
            continue;
        }
        // As in gdb an empty line says the last one again.
        if (line.find_first_not_of(" \t") == std::string::npos) line = asked ? last : "";
        if (line.empty() || line[0] == '#') continue;
        last = line;
        interrupted = 0;
        const auto answer = commands.execute(line);
        output.show_rest();
        say(json, answer);
        interrupted = 0;
    }
    return {};
}

}  // namespace

Result<> debug(const tool::Options& options) {
    Output output(
        [&](int rank, bool error, const std::string& line) { print_line(options.json, rank, error, line); });
    struct sigaction action {};
    action.sa_handler = on_interrupt;  // without SA_RESTART: what waits comes back
    const auto opened = TRY(Opened::open(
        options, [&](int rank, bool error, const std::string& text) { output.show(rank, error, text); },
        [&](const std::string& note) {
            if (!options.json && ::isatty(STDERR_FILENO) != 0) fmt::print(stderr, "cairn mpi: {}\n", note);
        }));
    ::sigaction(SIGINT, &action, nullptr);
    const Identity& identity = opened->identity();
    const auto events = opened->world().moves().computation().size();
    if (!options.json)
        fmt::print("{} ranks of {}, {} events\n{}", identity.size, printable(identity.program), events,
                   printable_lines(opened->notes()));
    else
        fmt::print("{}\n", json_text(nlohmann::json{{"ok", true},
                                                    {"ranks", identity.size},
                                                    {"program", identity.program},
                                                    {"events", events},
                                                    {"notes", opened->notes()}}));
    std::fflush(stdout);
    return converse(opened->world(), opened->bounds(), options, output);
}

}  // namespace cairn::mpi::debug
