// Protocols compared on made-up or recorded traffic.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "causality/protocol/protocol.h"

namespace cairn::causality {

enum class Traffic : std::uint8_t { ring, client_server, stencil, random, groups };
inline constexpr std::array every_traffic = {Traffic::ring, Traffic::client_server, Traffic::stencil,
                                             Traffic::random, Traffic::groups};
[[nodiscard]] std::string_view name(Traffic traffic);
[[nodiscard]] std::optional<Traffic> traffic_named(std::string_view name);

// Time is in units of the mean time between two sends of a process.
struct Scenario {
    Traffic traffic = Traffic::random;
    Process processes = 8;
    std::uint64_t messages = 10000;
    double checkpoint_every = 20;  // mean time between two basic checkpoints of a process
    double delay = 1;              // mean time of a message on its way
    bool fifo = true;
    std::uint32_t failures = 10;  // spread over the run
    std::uint64_t seed = 1;
    // Instead of the made-up traffic: this, with its checkpoints as the basic ones.
    const Pattern* recorded = nullptr;
    Encoding encoding = Encoding::full;
};

// At a failure of one process the recovery line is found and measured; then the run goes on as if there had
// been none, so that all protocols see the same traffic.
struct Outcome {
    ProtocolKind protocol = ProtocolKind::uncoordinated;
    std::uint64_t messages = 0;
    std::uint64_t basic = 0, forced = 0;
    std::uint64_t control_bytes = 0;       // on all messages
    std::uint64_t most_control_bytes = 0;  // on one
    std::uint64_t useless = 0;             // checkpoints on a Z-cycle
    std::uint32_t failures = 0;
    double mean_undone = 0;         // checkpoints of all processes given up at a failure
    std::uint32_t most_undone = 0;  // of one process
    double mean_domino = 0;         // messages on the longest chain of rollbacks
    std::uint32_t most_domino = 0;
    std::uint32_t to_start = 0;  // failures that sent a process back to its beginning
    std::uint64_t logged = 0;    // messages in stable logs, over the run
    double seconds = 0;          // of computing
};

// Memory: 17 bytes for each message beside the protocols' own (protocol/together.h: 4 bytes for each message
// and some rows of 4 bytes for each process).
[[nodiscard]] Outcome simulate(const Scenario& scenario, ProtocolKind protocol);

// Figures over one parameter as an SVG: a line for each protocol. `points[i]` belongs to `x[i]`.
struct Series {
    std::string name;
    std::vector<double> values;
};
[[nodiscard]] std::string plot_svg(const std::string& title, const std::string& x_name,
                                   const std::vector<double>& x, const std::string& y_name,
                                   const std::vector<Series>& series);

}  // namespace cairn::causality
