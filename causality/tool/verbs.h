// `cairn causality VERB`: each verb reads a trace and says something about it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "causality/computation.h"
#include "causality/cuts.h"
#include "causality/pattern.h"

namespace cairn::causality::tool {

struct Options {
    std::string verb;
    std::vector<std::string> files;
    bool json = false;
    // Events and checkpoints as P:N, cuts as N,N,...
    std::string after, before, is, from, to, extends;
    std::vector<Process> failed;
    std::uint64_t most = 10;
    double interval = 0;            // seconds
    std::string around;             // view: P:N
    std::uint64_t events = 200000;  // view: at most so many; 0: all
    bool by_time = false;
    std::string form;  // convert: lines, binary, otf2, perfetto, shiviz
    // simulate
    std::vector<std::string> protocols, traffic;
    std::vector<double> checkpoint_every;
    std::vector<std::uint32_t> processes;
    std::uint64_t messages = 10000;
    double delay = 1;
    bool fifo = true, differences = false;
    std::uint32_t failures = 10;
    std::uint64_t seed = 1;
    std::string svg, figure = "forced";
};

// Code usage: what is wrong with these words.
[[nodiscard]] Result<Options> read_options(std::span<char* const> words);
[[nodiscard]] std::string help(const std::string& verb);

// Each prints its answer; what isn't so is an error with code refused.
[[nodiscard]] Result<> check(const Options& options);
[[nodiscard]] Result<> cuts(const Options& options);
[[nodiscard]] Result<> places(const Options& options);
[[nodiscard]] Result<> zigzag(const Options& options);
[[nodiscard]] Result<> recovery_line(const Options& options);
[[nodiscard]] Result<> simulate(const Options& options);
[[nodiscard]] Result<> convert(const Options& options);
[[nodiscard]] Result<> view(const Options& options);

[[nodiscard]] Result<Computation> load(const Options& options);
[[nodiscard]] Result<std::pair<std::uint32_t, std::uint32_t>> parse_pair(const std::string& text);
[[nodiscard]] Result<Index> parse_event(const Computation& computation, const std::string& text);
[[nodiscard]] Result<Cut> parse_cut(const Computation& computation, const std::string& text);
[[nodiscard]] Result<Checkpoint> parse_checkpoint(const Pattern& pattern, const std::string& text);
[[nodiscard]] std::string cut_text(const std::vector<std::uint32_t>& cut);
void print_json(const nlohmann::json& value);

}  // namespace cairn::causality::tool
