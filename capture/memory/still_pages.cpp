#include "capture/memory/still_pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "common/image/format.h"

namespace cairn::capture {

Result<> read_pages(pid_t source, ptrace::ForcedReader& by, ProgramAddress at, bool readable,
                    std::span<std::uint8_t> to) {
    auto done = by.read(source, at, std::as_writable_bytes(to));
    if (!done && readable) done = ptrace::read_memory(source, at, std::as_writable_bytes(to));
    return done;
}

namespace {

// The kernel is asked for so many bytes by one call.
constexpr std::size_t at_once = std::size_t{1} << 20;

void find_pages(std::span<std::uint8_t> bytes) {
    constexpr int populate_write = 23;  // Linux 5.14; by a fault for each page it takes half as long again
    if (::madvise(bytes.data(), bytes.size(), populate_write) == 0) return;
    for (std::size_t at = 0; at < bytes.size(); at += image_page) bytes[at] = 0;
}

// Null: there isn't as much. Should the capture fork, no page of it is to be copied at the next write.
std::uint8_t* map_memory(std::size_t bytes) {
    void* const at =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return nullptr;
    (void)::madvise(at, bytes, MADV_DONTFORK);
    return static_cast<std::uint8_t*>(at);
}

}  // namespace

StillRoom::StillRoom(std::size_t bytes, std::size_t wanted)
    : bytes_(map_memory(bytes)), size_(bytes_ == nullptr ? 0 : bytes) {
    touch_ = [this, wanted] {
        const auto end = std::min(wanted, size_);
        for (std::size_t at = 0; at < end && !enough_; at += at_once)
            find_pages(std::span(bytes_ + at, std::min(at_once, end - at)));
    };
    toucher_ = helper_threads(1, touch_);
}

StillRoom::~StillRoom() {
    leave_off();
    if (bytes_ != nullptr) ::munmap(bytes_, size_);
}

void StillRoom::leave_off() {
    enough_ = true;
    toucher_.join();
}

std::optional<std::span<std::uint8_t>> StillRoom::take(std::size_t bytes) {
    const auto at = taken_.fetch_add(bytes);
    if (at > size_ || bytes > size_ - at) return {};
    return std::span(bytes_ + at, bytes);
}

Result<std::unique_ptr<StillPages>> StillPages::read(pid_t source, const std::vector<Wanted>& ranges,
                                                     std::shared_ptr<StillRoom> room) {
    std::size_t all = 0;
    for (const auto& wanted : ranges) all += wanted.range.length();
    const auto place = room->take(all);
    if (!place) return nullptr;
    auto pages = std::make_unique<StillPages>();
    pages->room_ = std::move(room);
    // What lies side by side is read by one call: that of a single page takes as long as the copying of ten.
    ptrace::ForcedReader by;
    auto rest = *place;
    for (std::size_t begin = 0, end = 0; begin < ranges.size(); begin = end) {
        const auto follows = [&] {
            return ranges[end].range.start == ranges[end - 1].range.end &&
                   ranges[end].readable == ranges[begin].readable;
        };
        for (end = begin + 1; end < ranges.size() && follows();) ++end;
        const ProgramRange range{ranges[begin].range.start, ranges[end - 1].range.end};
        const auto bytes = rest.first(range.length());
        rest = rest.subspan(bytes.size());
        CHECK_OK(read_pages(source, by, range.start, ranges[begin].readable, bytes));
        pages->parts_.push_back({range, bytes});
    }
    return pages;
}

std::span<const std::uint8_t> StillPages::at(ProgramRange range) const {
    const auto part =
        std::ranges::upper_bound(parts_, range.start, {}, [](const Part& each) { return each.range.end; });
    if (part == parts_.end() || range.start < part->range.start || part->range.end < range.end) std::abort();
    return part->bytes.subspan(range.start - part->range.start, range.length());
}

void StillPages::copy(ProgramRange range, std::span<std::uint8_t> to) const {
    auto part =
        std::ranges::upper_bound(parts_, range.start, {}, [](const Part& each) { return each.range.end; });
    for (; part != parts_.end() && part->range.start < range.end; ++part) {
        const auto start = std::max(part->range.start, range.start);
        const auto end = std::min(part->range.end, range.end);
        std::memcpy(&to[start - range.start], &part->bytes[start - part->range.start], end - start);
    }
}

}  // namespace cairn::capture
