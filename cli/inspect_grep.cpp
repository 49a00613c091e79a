#include "cli/inspect_grep.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <nlohmann/json.hpp>

#include "cli/inspect_memory.h"
#include "cli/inspect_text.h"

namespace cairn::inspect {
namespace {

constexpr std::size_t before_it = 16, behind_it = 48;  // bytes of context

// What can't be printed is a point.
std::string legible(std::string text) {
    std::ranges::replace_if(
        text, [](char each) { return each < ' ' || each > '~'; }, '.');
    return text;
}

class Search {
  public:
    Search(const Checkpoint& checkpoint, const LoadedProcess& process, const std::string& bytes,
           std::vector<FoundBytes>& found)
        : process_(process), memory_(checkpoint, process), bytes_(bytes), found_(found) {}

    Result<> run() {
        for (const auto& area : process_.process.areas) {
            rest_.clear();
            for (const auto& piece : TRY(memory_.pieces_of(area))) {
                if (piece.source == nullptr || piece.of_file || piece.at != next_) rest_.clear();
                if (piece.source != nullptr && !piece.of_file) CHECK_OK(look_at(area, piece));
            }
        }
        return {};
    }

  private:
    // Bytes may stand over the border of two pieces: the end of one is kept for the next.
    Result<> look_at(const schema::Area& area, const MemoryPiece& piece) {
        std::string text(piece.length, '\0');
        CHECK_OK(piece.source->read(piece.offset, writable(text)));
        next_ = piece.at + piece.length;
        const std::string all = rest_ + text;
        const ProgramAddress begin = piece.at - rest_.size();
        const std::boyer_moore_horspool_searcher searcher(bytes_.begin(), bytes_.end());
        for (auto from = all.begin();;) {
            const auto at = std::search(from, all.end(), searcher);
            if (at == all.end()) break;
            CHECK_OK(add(area, begin + static_cast<std::uint64_t>(at - all.begin())));
            from = at + 1;
        }
        rest_ = all.substr(all.size() - std::min(all.size(), bytes_.size() - 1));
        return {};
    }

    Result<> add(const schema::Area& area, ProgramAddress at) {
        const std::uint64_t earlier = std::min<std::uint64_t>(before_it, at - area.start);
        const std::size_t length =
            std::min<std::uint64_t>(earlier + bytes_.size() + behind_it, area.end - (at - earlier));
        found_.push_back({process_.process.pid, process_.process.name, at, area.name,
                          legible(TRY(memory_.read(at - earlier, length)))});
        return {};
    }

    const LoadedProcess& process_;
    ProcessMemory memory_;
    const std::string& bytes_;
    std::vector<FoundBytes>& found_;
    std::string rest_;  // what was before `next_`
    ProgramAddress next_;
};

}  // namespace

Result<std::string> bytes_of(const std::string& written) {
    std::string bytes;
    for (std::size_t i = 0; i < written.size(); ++i) {
        if (written[i] != '\\') {
            bytes += written[i];
            continue;
        }
        const char which = ++i < written.size() ? written[i] : '\0';
        if (which == 'x') {
            unsigned value = 0;
            const char* const digits = written.data() + i + 1;
            const auto read =
                std::from_chars(digits, written.data() + std::min(written.size(), i + 3), value, 16);
            if (read.ptr != digits + 2)
                return fail_code(ExitCode::usage, "--grep {}: behind \\x stand two digits", written);
            bytes += static_cast<char>(value);
            i += 2;
            continue;
        }
        constexpr std::string_view names = "nrt0\\", values{"\n\r\t\0\\", 5};
        const auto known = names.find(which);
        if (known == std::string_view::npos || i >= written.size())
            return fail_code(ExitCode::usage,
                             "--grep {}: of escapes there are \\n, \\r, \\t, \\0, \\\\ and \\xNN", written);
        bytes += values[known];
    }
    if (bytes.empty()) return fail_code(ExitCode::usage, "--grep wants at least one byte");
    return bytes;
}

Result<std::vector<FoundBytes>> find_bytes(const Checkpoint& checkpoint, const std::string& bytes) {
    std::vector<FoundBytes> found;
    for (const auto& process : checkpoint.processes)
        CHECK_OK(Search(checkpoint, process, bytes, found).run());
    return found;
}

std::string as_text(const std::vector<FoundBytes>& found) {
    Table table(
        "", {Table::Side::right, Table::Side::left, Table::Side::left, Table::Side::left, Table::Side::left});
    table.row({"PID", "NAME", "ADDRESS", "WHERE", "CONTEXT"});
    for (const auto& each : found)
        table.row({fmt::format("{}", each.pid), printable(each.name), fmt::format("{:#x}", each.at.value()),
                   each.area.empty() ? "-" : printable(each.area), each.context});
    return found.empty() ? "" : table.text();
}

nlohmann::json as_json(const std::vector<FoundBytes>& found) {
    auto list = nlohmann::json::array();
    for (const auto& each : found)
        list.push_back({{"pid", each.pid.number()},
                        {"name", each.name},
                        {"address", each.at.value()},
                        {"area", each.area},
                        {"context", each.context}});
    return {{"found", std::move(list)}};
}

}  // namespace cairn::inspect
