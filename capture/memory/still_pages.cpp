#include "capture/memory/still_pages.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "common/image/format.h"

namespace cairn::capture {

Result<> read_pages(pid_t source, ptrace::ForcedReader& by, ProgramAddress at, bool readable,
                    std::span<std::uint8_t> to) {
    auto done = by.read(source, at, std::as_writable_bytes(to));
    if (!done && readable) done = ptrace::read_memory(source, at, std::as_writable_bytes(to));
    return done;
}

void StillRoom::touch(const std::atomic<bool>& enough) {
    for (std::size_t at = 0; at < size_ && !enough; at += image_page) bytes_[at] = 0;
}

Result<std::unique_ptr<StillPages>> StillPages::read(pid_t source, const std::vector<Wanted>& ranges,
                                                     std::shared_ptr<StillRoom> room) {
    auto pages = std::make_unique<StillPages>();
    std::size_t all = 0;
    for (const auto& wanted : ranges) {
        pages->parts_.push_back({wanted.range, all});
        all += wanted.range.length();
    }
    if (room == nullptr || room->bytes().size() < all) room = std::make_shared<StillRoom>(all);
    pages->room_ = std::move(room);
    ptrace::ForcedReader by;
    for (auto wanted = ranges.begin(); const auto& part : pages->parts_)
        CHECK_OK(read_pages(source, by, part.range.start, (wanted++)->readable,
                            pages->room_->bytes().subspan(part.offset, part.range.length())));
    return pages;
}

std::span<const std::uint8_t> StillPages::at(ProgramRange range) const {
    const auto part =
        std::ranges::upper_bound(parts_, range.start, {}, [](const Part& each) { return each.range.end; });
    if (part == parts_.end() || range.start < part->range.start || part->range.end < range.end) std::abort();
    return room_->bytes().subspan(part->offset + (range.start - part->range.start), range.length());
}

}  // namespace cairn::capture
