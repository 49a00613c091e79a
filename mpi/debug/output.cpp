#include "mpi/debug/output.h"

namespace cairn::mpi::debug {

void Output::show(int rank, bool error, const std::string& text) {
    std::string& line = open_[{rank, error}];
    line += text;
    for (std::size_t end = 0; (end = line.find('\n')) != std::string::npos; line.erase(0, end + 1))
        print_(rank, error, line.substr(0, end));
    // Of what has no end of a line no more is kept than is good to read.
    if (line.size() > 4096) print_(rank, error, std::exchange(line, ""));
}

void Output::show_rest() {
    for (auto& [whose, line] : open_)
        if (!line.empty()) print_(whose.first, whose.second, std::exchange(line, ""));
}

}  // namespace cairn::mpi::debug
