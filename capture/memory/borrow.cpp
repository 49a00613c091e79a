#include "capture/memory/borrow.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "common/fd.h"
#include "common/image/page_hashes.h"
#include "common/schema/areas.h"

namespace cairn::capture {
namespace {

// The run that contains the address, or else the first one behind it.
std::vector<schema::PageRun>::const_iterator find_run(const std::vector<schema::PageRun>& runs,
                                                      ProgramAddress address) {
    auto next = std::ranges::upper_bound(runs, address, {}, &schema::PageRun::at);
    if (next != runs.begin() && address < std::prev(next)->at + std::prev(next)->length) --next;
    return next;
}

// Linux: Documentation/admin-guide/mm/pagemap.rst.
constexpr std::uint64_t entry_present = 1ULL << 63, entry_frame = (1ULL << 55) - 1;

// In which frame of the machine's memory each page of the range is; nothing if one isn't there, or nobody may
// know.
std::optional<std::vector<std::uint64_t>> frames_of(PageMap& map, ProgramRange range) {
    const auto fd = map.descriptor();
    std::vector<std::uint64_t> entries(range.length() / image_page);
    const auto wanted = static_cast<ssize_t>(entries.size() * sizeof(std::uint64_t));
    const auto at = static_cast<off_t>(range.start.value() / image_page * sizeof(std::uint64_t));
    if (!fd || ::pread(*fd, entries.data(), static_cast<std::size_t>(wanted), at) != wanted) return {};
    for (auto& entry : entries) {
        if ((entry & entry_present) == 0) return {};
        entry &= entry_frame;
        if (entry == 0) return {};
    }
    return entries;
}

}  // namespace

bool can_be_borrowed(const schema::Area& area) {
    using schema::AreaKind;
    return (area.kind == AreaKind::anonymous || area.kind == AreaKind::file_private) && !area.grows_down &&
           !area.locked && !area.dont_fork && !area.wipe_on_fork && !area.droppable && !area.huge_pages;
}

const schema::Area* lending_area(const std::vector<schema::Area>& lenders, const schema::Area& area,
                                 ProgramRange part) {
    const auto* found = schema::area_around(lenders, part.start, part.end);
    if (found == nullptr || !schema::same_backing(*found, area) || !can_be_borrowed(*found) ||
        !can_be_borrowed(area))
        return nullptr;
    return found;
}

std::optional<Stored> stored_at(const Lender& lender, ProgramAddress address) {
    const auto within = [&](const std::vector<schema::PageRun>& runs) {
        const auto run = find_run(runs, address);
        return run != runs.end() && run->at <= address ? std::optional(*run) : std::nullopt;
    };
    if (const auto own = within(lender.area->pages)) return Stored{lender.id, {}, *own};
    if (!lender.area->borrowed) return {};
    for (const auto& part : *lender.area->borrowed)
        if (const auto other = within(part.pages)) return Stored{part.from, part.file, *other};
    return {};
}

std::vector<Piece> compare_pages(const Lender& lender, ProgramRange range, std::span<const std::uint8_t> mine,
                                 std::span<const std::uint8_t> theirs) {
    std::vector<Piece> pieces;
    for (std::uint64_t done = 0; done < range.length(); done += image_page) {
        const auto at = range.start + done;
        std::optional<Stored> stored;
        if (std::memcmp(&mine[done], &theirs[done], image_page) == 0) stored = stored_at(lender, at);
        if (!pieces.empty()) {
            auto& last = pieces.back();
            const bool same_run = stored && last.stored && stored->from == last.stored->from &&
                                  stored->file == last.stored->file && stored->run.at == last.stored->run.at;
            if (same_run || (!stored && !last.stored)) {
                last.range.end = at + image_page;
                continue;
            }
        }
        pieces.push_back({{at, at + image_page}, stored});
    }
    for (auto& piece : pieces)
        piece.whole = piece.stored && piece.range.start == piece.stored->run.at &&
                      piece.range.length() == piece.stored->run.length;
    return pieces;
}

bool still_as_stored(const schema::PageRun& run, ProgramRange range, std::span<const std::uint8_t> theirs) {
    if (run.at < range.start || range.end < run.at + run.length) return false;
    return run_hash(theirs.subspan(run.at - range.start, run.length)) == run.hash;
}

void add_borrowed(schema::Area& area, const Stored& stored) {
    if (!area.borrowed) area.borrowed.emplace();
    auto part = std::ranges::find_if(*area.borrowed, [&](const schema::Borrowed& each) {
        return each.from == stored.from && each.file == stored.file;
    });
    if (part == area.borrowed->end()) {
        area.borrowed->push_back({stored.from, stored.file, {}});
        part = std::prev(area.borrowed->end());
    }
    part->pages.push_back(stored.run);
}

std::optional<std::vector<Stored>> same_pages(const Lender& lender, PageMap& lenders, PageMap& borrowers,
                                              ProgramRange range) {
    const auto mine = frames_of(borrowers, range);
    if (!mine || mine != frames_of(lenders, range)) return {};
    std::vector<Stored> all;
    bool inside = true;
    const auto add = [&](ProgramId from, const std::optional<std::string>& file,
                         const std::vector<schema::PageRun>& runs) {
        for (auto run = find_run(runs, range.start); run != runs.end() && run->at < range.end; ++run) {
            inside = inside && range.start <= run->at && run->at + run->length <= range.end;
            all.push_back({from, file, *run});
        }
    };
    add(lender.id, {}, lender.area->pages);
    if (lender.area->borrowed)
        for (const auto& part : *lender.area->borrowed) add(part.from, part.file, part.pages);
    if (!inside) return {};
    return all;
}

}  // namespace cairn::capture
