#include "coordinator/told.h"

#include <cstddef>

namespace cairn::coordinator {
namespace {

// A program whose notes are others each time (ports, numbers of processes) must not fill the memory of a
// coordinator that runs for months: then all are told once more.
constexpr std::size_t most_told = 4096;

}  // namespace

std::vector<std::string> Told::news(const std::vector<std::string>& notes, Audience audience) {
    auto& [log, client] = told_;
    for (auto* told : {&log, &client})
        if (told->size() > most_told) told->clear();
    std::vector<std::string> news;
    for (const std::string& note : notes) {
        const bool to_log = log.insert(note).second;
        const bool to_client = audience == Audience::client && client.insert(note).second;
        if (audience == Audience::client ? to_client : to_log) news.push_back(note);
    }
    return news;
}

}  // namespace cairn::coordinator
