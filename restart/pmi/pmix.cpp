#include "restart/pmi/pmix.h"

#include <arpa/inet.h>

#include <cstring>
#include <optional>
#include <utility>

namespace cairn::restart::pmi {
namespace {

struct Header {
    std::uint32_t peer, tag, size, padding;
};

// pmix_globals.h of PMIx 4.2
enum class Command : std::uint8_t {
    abort = 1,
    commit = 2,
    fence = 3,
    get = 4,
    finalize = 5,
    notify = 12,
    register_events = 13,
    deregister_events = 14,
    log = 16,
    job_control = 18,  // files to be removed at the job's end
    monitor = 19,
};

// pmix_common.h
constexpr int success = 0, not_found = -46, not_supported = -47;

std::string flex(int value) {
    auto rest = (static_cast<std::uint32_t>(value) << 1) ^ static_cast<std::uint32_t>(value >> 31);
    std::string bytes;
    for (; rest > 0x7f; rest >>= 7) bytes += static_cast<char>(rest | 0x80);
    return bytes + static_cast<char>(rest);
}

// Take a number off the front.
std::optional<std::uint32_t> take_unsigned(std::string_view& bytes) {
    std::uint32_t value = 0;
    for (unsigned shift = 0; !bytes.empty() && shift < 35; shift += 7) {
        const auto byte = static_cast<std::uint8_t>(bytes.front());
        bytes.remove_prefix(1);
        value |= std::uint32_t{byte & 0x7fU} << shift;
        if ((byte & 0x80) == 0) return value;
    }
    return std::nullopt;
}

std::optional<int> take_signed(std::string_view& bytes) {
    const auto value = take_unsigned(bytes);
    if (!value) return std::nullopt;
    return static_cast<int>(*value >> 1) ^ -static_cast<int>(*value & 1);
}

// Behind the command: a number of processes, and each as a namespace and a rank.
bool is_of_all(std::string_view fence) {
    constexpr std::uint32_t rank_wildcard = 0xfffffffe;  // PMIX_RANK_WILDCARD
    if (take_signed(fence) != 1 || take_unsigned(fence) != 1U || take_signed(fence) != 1) return false;
    const int length = take_signed(fence).value_or(-1);  // with the zero at its end
    if (length < 0 || static_cast<std::size_t>(length) > fence.size()) return false;
    fence.remove_prefix(static_cast<std::size_t>(length));
    return take_unsigned(fence) == rank_wildcard;
}

std::string status_answer(std::uint32_t tag, int status) {
    const std::string body = flex(1) + flex(status);
    const Header header{0, htonl(tag), htonl(static_cast<std::uint32_t>(body.size())), 0};
    return std::string(reinterpret_cast<const char*>(&header), sizeof header) + body;
}

}  // namespace

Job::Answers Pmix::read(std::size_t rank, std::string& unread) {
    Answers answers;
    Header header{};
    while (unread.size() >= sizeof header) {
        std::memcpy(&header, unread.data(), sizeof header);
        const std::size_t size = ntohl(header.size);
        if (unread.size() - sizeof header < size) break;
        for (auto& each : hear(rank, ntohl(header.tag), std::string_view(unread).substr(sizeof header, size)))
            answers.push_back(std::move(each));
        unread.erase(0, sizeof header + size);
    }
    return answers;
}

Job::Answers Pmix::hear(std::size_t rank, std::uint32_t tag, std::string_view body) {
    const auto count = take_signed(body);
    if (count != 1 || body.empty()) {
        barrier().abort(1);
        return {};
    }
    const auto command = static_cast<Command>(body.front());
    body.remove_prefix(1);
    // A fence of some of the ranks is for those that MPI_Comm_spawn or MPI_Comm_connect have brought
    // together.
    if ((command == Command::fence && is_of_all(body)) || command == Command::finalize) {
        asked_.at(rank).push_back(tag);
        return to(command == Command::fence ? barrier().enter(rank) : barrier().finalize(rank));
    }
    barrier().runs(rank);
    switch (command) {
        case Command::deregister_events:
            return {};  // nobody waits for an answer
        case Command::abort:
            (void)take_signed(body);
            barrier().abort(take_signed(body).value_or(1));
            return {{rank, status_answer(tag, success)}};
        case Command::get:
            return {{rank, status_answer(tag, not_found)}};
        case Command::commit:
        case Command::notify:
        case Command::register_events:
        case Command::log:
        case Command::job_control:
        case Command::monitor:
            return {{rank, status_answer(tag, success)}};
        default:
            // Starting more programs, joining others, publishing names: what only the launcher can do.
            return {{rank, status_answer(tag, not_supported)}};
    }
}

std::string Pmix::answer(const Barrier::Release& release) {
    std::string bytes;
    for (const std::uint32_t tag : std::exchange(asked_.at(release.rank), {}))
        bytes += status_answer(tag, success);
    return bytes;
}

}  // namespace cairn::restart::pmi
