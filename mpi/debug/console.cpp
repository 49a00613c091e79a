#include "mpi/debug/console.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "common/json_text.h"
#include "common/printable.h"
#include "mpi/debug/commands.h"
#include "mpi/debug/traces.h"
#include "mpi/record/reader.h"

namespace cairn::mpi::debug {
namespace {

// What the MPI of a rank leaves behind that is killed (Open MPI: folders), and removed at the end.
class Scratch {
  public:
    explicit Scratch(int ranks) {
        char path[] = "/tmp/cairn-mpi-debug-XXXXXX";
        if (::mkdtemp(path) == nullptr) return;
        path_ = path;
        for (int rank = 0; rank < ranks; ++rank) ::mkdir(fmt::format("{}/{}", path_, rank).c_str(), 0700);
    }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    ~Scratch() {
        std::error_code ignored;
        if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
    }
    [[nodiscard]] const std::string& path() const { return path_; }

  private:
    std::string path_;
};

// What the program prints, a line at a time, with its rank in front.
class Output {
  public:
    explicit Output(bool json) : json_(json) {}
    void show(int rank, bool error, const std::string& text) {
        std::string& line = open_[{rank, error}];
        line += text;
        for (std::size_t end = 0; (end = line.find('\n')) != std::string::npos; line.erase(0, end + 1))
            print(rank, error, line.substr(0, end));
        // Of what has no end of a line no more is kept than is good to read.
        if (line.size() > 4096) print(rank, error, std::exchange(line, ""));
    }
    void show_rest() {
        for (auto& [whose, line] : open_)
            if (!line.empty()) print(whose.first, whose.second, std::exchange(line, ""));
    }

  private:
    void print(int rank, bool error, const std::string& line) const {
        if (json_)
            fmt::print("{}\n", json_text(nlohmann::json{
                                   {"rank", rank}, {"stream", error ? "stderr" : "stdout"}, {"line", line}}));
        else
            fmt::print("[{}] {}\n", rank, printable(line));
    }
    bool json_;
    std::map<std::pair<int, bool>, std::string> open_;
};

std::uint64_t free_memory() {
    std::ifstream file("/proc/meminfo");
    for (std::string line; std::getline(file, line);)
        if (line.starts_with("MemAvailable:")) return std::strtoull(line.c_str() + 13, nullptr, 10) * 1024;
    return 0;
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
    if (auto begun = world.go({0, 0}); !begun) return begun;
    if (!json) say(false, commands.place());
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
    const auto record = TRY(RecordReader::open(options.folder, 0));
    const Identity& identity = record->identity();
    if (!identity.contents)
        return fail_code(ExitCode::refused,
                         "{} has no contents, which ranks need to run alone: record it with --contents",
                         options.folder);
    for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
        if (std::getenv(name) != nullptr)
            return fail_code(ExitCode::usage,
                             "the debugger runs every rank by itself: start it without mpiexec");
    const Scratch scratch(identity.size);
    tool::Launch launch{.job = "replay",
                        .folder = options.folder,
                        .mpi = options.mpi.empty() ? identity.mpi : options.mpi,
                        // A rank alone needs no network, and Open MPI no daemon.
                        .variables = {{"OMPI_MCA_ess_singleton_isolated", "1"},
                                      {"OMPI_MCA_btl", "self"},
                                      {"OMPI_MCA_pml", "ob1"},
                                      {openmpi_folder, scratch.path()},
                                      {"UCX_TLS", "self"}},
                        .command = options.command};
    std::string notes;
    if (!options.json && ::isatty(STDERR_FILENO) != 0 &&
        ::access((options.folder + "/debug/of").c_str(), F_OK) != 0)
        fmt::print(stderr, "cairn mpi: running each of {} ranks once for its trace\n", identity.size);
    const auto computation = TRY(trace_of(options.folder, identity, launch, notes));
    Output output(options.json);
    struct sigaction action {};
    action.sa_handler = on_interrupt;  // without SA_RESTART: what waits comes back
    ::sigaction(SIGINT, &action, nullptr);
    const std::uint64_t memory = options.memory > 0 ? std::uint64_t{options.memory} << 20 : free_memory() / 2;
    const Bounds bounds{.back_within = options.back_within,
                        .checkpoints = options.checkpoints,
                        .every = options.every,
                        .memory = memory / static_cast<std::uint64_t>(identity.size)};
    World world(computation, launch, bounds,
                [&](int rank, bool error, const std::string& text) { output.show(rank, error, text); });
    if (!options.json)
        fmt::print("{} ranks of {}, {} events\n{}", identity.size, printable(identity.program),
                   computation.size(), printable_lines(notes));
    else
        fmt::print("{}\n", json_text(nlohmann::json{{"ok", true},
                                                    {"ranks", identity.size},
                                                    {"program", identity.program},
                                                    {"events", computation.size()},
                                                    {"notes", notes}}));
    std::fflush(stdout);
    return converse(world, bounds, options, output);
}

}  // namespace cairn::mpi::debug
