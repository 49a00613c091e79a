#include "common/image/page_hashes.h"

#include <algorithm>
#include <cstring>

#include "common/image/hash.h"

namespace cairn {

void PageHashes::replace_by(std::span<const std::uint8_t> section) {
    hashes_.resize(section.size() / sizeof(std::uint64_t));
    if (!hashes_.empty()) std::memcpy(hashes_.data(), section.data(), hashes_.size() * sizeof(std::uint64_t));
}

void PageHashes::put(std::uint64_t offset, std::span<const std::uint64_t> hashes) {
    const std::size_t first = offset / image_page - 1;
    const std::scoped_lock lock(mutex_);
    if (hashes_.size() < first + hashes.size()) hashes_.resize(first + hashes.size());
    std::ranges::copy(hashes, hashes_.begin() + static_cast<std::ptrdiff_t>(first));
}

std::uint64_t PageHashes::at(std::uint64_t offset) const {
    const std::uint64_t index = offset / image_page - 1;
    return index < hashes_.size() ? hashes_[index] : 0;
}

std::span<const std::uint64_t> PageHashes::from(std::uint64_t offset, std::uint64_t pages) const {
    const std::uint64_t first = std::min<std::uint64_t>(offset / image_page - 1, hashes_.size());
    return std::span(hashes_).subspan(first, std::min<std::uint64_t>(pages, hashes_.size() - first));
}

schema::Bytes PageHashes::to_section() const {
    schema::Bytes bytes(hashes_.size() * sizeof(std::uint64_t));
    if (!bytes.empty()) std::memcpy(bytes.data(), hashes_.data(), bytes.size());
    return bytes;
}

std::uint64_t page_hash(std::span<const std::uint8_t> page) {
    const std::uint64_t hash = hash64(page);
    return hash == 0 ? 1 : hash;
}

std::uint64_t run_hash(std::span<const std::uint64_t> hashes_of_pages) {
    return hash64(
        {reinterpret_cast<const std::uint8_t*>(hashes_of_pages.data()), hashes_of_pages.size_bytes()});
}

std::uint64_t run_hash(std::span<const std::uint8_t> pages) {
    std::vector<std::uint64_t> hashes;
    hashes.reserve(pages.size() / image_page + 1);
    while (!pages.empty()) {
        const auto page = pages.first(std::min<std::size_t>(pages.size(), image_page));
        hashes.push_back(page_hash(page));
        pages = pages.subspan(page.size());
    }
    return run_hash(hashes);
}

bool is_run_hash(std::uint64_t hash, std::span<const std::uint8_t> pages) {
    return hash == run_hash(pages) || hash == hash64(pages);
}

}  // namespace cairn
