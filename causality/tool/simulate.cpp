// `cairn causality simulate`: protocols side by side, as a table, JSON or a plot.
#include "causality/simulate.h"

#include <unistd.h>

#include <algorithm>
#include <future>
#include <nlohmann/json.hpp>
#include <semaphore>
#include <thread>

#include "causality/tool/verbs.h"

namespace cairn::causality::tool {
namespace {

using nlohmann::json;

json json_of(const Outcome& o) {
    return {{"protocol", name(o.protocol)},
            {"messages", o.messages},
            {"basic", o.basic},
            {"forced", o.forced},
            {"control_bytes", o.control_bytes},
            {"most_control_bytes", o.most_control_bytes},
            {"useless", o.useless},
            {"failures", o.failures},
            {"mean_undone", o.mean_undone},
            {"most_undone", o.most_undone},
            {"mean_domino", o.mean_domino},
            {"most_domino", o.most_domino},
            {"to_start", o.to_start},
            {"logged", o.logged},
            {"seconds", o.seconds}};
}

std::optional<double> figure_of(const Outcome& o, const std::string& figure) {
    const auto per = [](std::uint64_t a, std::uint64_t b) {
        return b == 0 ? 0.0 : static_cast<double>(a) / static_cast<double>(b);
    };
    if (figure == "forced") return per(o.forced, o.basic);
    if (figure == "bytes") return per(o.control_bytes, o.messages);
    if (figure == "undone") return o.mean_undone;
    if (figure == "domino") return o.mean_domino;
    if (figure == "logged") return per(o.logged, o.messages);
    return std::nullopt;
}

const char* figure_name(const std::string& figure) {
    if (figure == "forced") return "forced checkpoints for each basic one";
    if (figure == "bytes") return "control bytes on a message";
    if (figure == "undone") return "checkpoints given up at a failure";
    if (figure == "domino") return "messages on the longest chain of rollbacks";
    return "logged messages for each message";
}

Result<> write_file(const std::string& path, const std::string& text) {
    std::FILE* file = std::fopen(path.c_str(), "wbe");
    if (file == nullptr) return fail_errno("creating {}", path);
    const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    if (std::fclose(file) != 0 || !written) return fail_errno("writing {}", path);
    return {};
}

// As many at a time as there are processors, but not more than a laptop has memory for.
std::vector<std::future<Outcome>> simulate_all(const Scenario& scenario,
                                               const std::vector<ProtocolKind>& protocols) {
    static std::counting_semaphore<> processors(std::clamp(std::thread::hardware_concurrency(), 1U, 4U));
    struct Turn {
        Turn() { processors.acquire(); }
        ~Turn() { processors.release(); }
    };
    std::vector<std::future<Outcome>> outcomes;
    for (const ProtocolKind kind : protocols)
        outcomes.push_back(std::async(std::launch::async, [&scenario, kind] {
            const Turn turn;
            return causality::simulate(scenario, kind);
        }));
    return outcomes;
}

void print_heading() {
    fmt::print("{:<14}{:>9}{:>9}{:>11}{:>9}{:>9}{:>8}{:>9}{:>9}{:>9}\n", "protocol", "basic", "forced",
               "bytes/msg", "useless", "undone", "most", "domino", "to start", "logged");
}

void print_row(const Outcome& o) {
    fmt::print("{:<14}{:>9}{:>9}{:>11.1f}{:>9}{:>9.1f}{:>8}{:>9.1f}{:>9}{:>9}\n", name(o.protocol), o.basic,
               o.forced, *figure_of(o, "bytes"), o.useless, o.mean_undone, o.most_undone, o.mean_domino,
               o.to_start, o.logged);
}

// With differences each process remembers, for each channel, what it said there of each entry of its matrix.
Result<> has_room(std::uint32_t processes) {
    constexpr double bytes_for_each = 40;  // measured: 57 MiB with 100 processes, 325 MiB with 200
    const double needed = bytes_for_each * processes * processes * processes;
    const double there =
        static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
    if (needed < there) return {};
    return fail_code(ExitCode::usage,
                     "--protocol logging --differences needs some {:.0f} GB of memory for {} processes, this "
                     "machine has {:.0f}: leave out --differences, or take fewer processes",
                     needed / 1e9, processes, there / 1e9);
}

Result<std::vector<ProtocolKind>> wanted_protocols(const Options& options) {
    std::vector<ProtocolKind> protocols;
    for (const std::string& each : options.protocols) {
        if (each == "all") {
            protocols.assign(every_protocol.begin(), every_protocol.end());
            // It counts on channels that keep the order.
            if (!options.fifo) protocols.pop_back();
            continue;
        }
        const auto kind = protocol_named(each);
        if (!kind) return fail_code(ExitCode::usage, "--protocol: there is no '{}'", each);
        if (*kind == ProtocolKind::logging && !options.fifo)
            return fail_code(ExitCode::usage, "--protocol logging needs channels that keep the order");
        protocols.push_back(*kind);
    }
    return protocols;
}

Result<> check_simulation(const Options& options) {
    if (!figure_of({}, options.figure))
        return fail_code(ExitCode::usage, "--figure: there is no '{}'", options.figure);
    if (options.traffic.size() != 1 || !traffic_named(options.traffic[0]))
        return fail_code(ExitCode::usage, "--traffic: one of ring, client-server, stencil, random, groups");
    for (const std::uint32_t n : options.processes)
        if (n < 2 || n > 10000) return fail_code(ExitCode::usage, "--processes: from 2 to 10000");
    if (options.processes.size() > 1 && options.checkpoint_every.size() > 1)
        return fail_code(ExitCode::usage,
                         "several values for --processes or for --checkpoint-every, not for both");
    return {};
}

}  // namespace

Result<> simulate(const Options& options) {
    const auto protocols = TRY(wanted_protocols(options));
    CHECK_OK(check_simulation(options));
    std::optional<Pattern> recorded;
    if (!options.files.empty()) {
        const auto c = TRY(load(options));
        recorded = pattern_of(c);
    }
    if (options.differences && std::ranges::find(protocols, ProtocolKind::logging) != protocols.end())
        if (auto room = has_room(recorded ? recorded->processes() : std::ranges::max(options.processes));
            !room)
            return room;
    const bool over_processes = options.processes.size() > 1;

    std::vector<double> x;
    std::vector<Series> series(protocols.size());
    json runs = json::array();
    for (const std::uint32_t n : options.processes)
        for (const double every : options.checkpoint_every) {
            const double at = over_processes ? n : every;
            x.push_back(at);
            if (!options.json) {
                if (options.processes.size() * options.checkpoint_every.size() > 1)
                    fmt::print("{} {:g}:\n", over_processes ? "processes" : "checkpoint-every", at);
                print_heading();
            }
            const Scenario scenario{.traffic = *traffic_named(options.traffic[0]),
                                    .processes = n,
                                    .messages = options.messages,
                                    .checkpoint_every = every,
                                    .delay = options.delay,
                                    .fifo = options.fifo,
                                    .failures = options.failures,
                                    .seed = options.seed,
                                    .recorded = recorded ? &*recorded : nullptr,
                                    .encoding = options.differences ? Encoding::differences : Encoding::full};
            std::vector<std::future<Outcome>> outcomes = simulate_all(scenario, protocols);
            for (std::size_t i = 0; i < protocols.size(); ++i) {
                const Outcome outcome = outcomes[i].get();
                series[i].name = name(protocols[i]);
                series[i].values.push_back(*figure_of(outcome, options.figure));
                if (options.json) {
                    json run = json_of(outcome);
                    run["processes"] = recorded ? recorded->processes() : n;
                    run["checkpoint_every"] = every;
                    runs.push_back(std::move(run));
                } else {
                    print_row(outcome);
                    static_cast<void>(std::fflush(stdout));
                }
            }
        }
    if (options.json)
        print_json({{"traffic", options.traffic[0]}, {"seed", options.seed}, {"runs", std::move(runs)}});
    if (!options.svg.empty())
        return write_file(
            options.svg,
            plot_svg(recorded ? options.files[0] : options.traffic[0] + " traffic",
                     over_processes ? "processes" : "mean time between basic checkpoints, in sends", x,
                     figure_name(options.figure), series));
    return {};
}

}  // namespace cairn::causality::tool
