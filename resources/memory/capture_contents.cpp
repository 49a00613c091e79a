#include "resources/memory/capture_contents.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "common/image/hash.h"
#include "common/image/page_hashes.h"

namespace cairn::capture {
namespace {

bool is_zero_page(std::span<const std::uint8_t> piece) {
    return piece[0] == 0 && std::memcmp(piece.data(), piece.data() + 1, piece.size() - 1) == 0;
}

}  // namespace

Result<> InodeContents::put(std::uint64_t offset, std::span<const std::uint8_t> data, Runs* runs) {
    // Blocks begin at multiples of their length: who reads the inode once more finds the runs whole, wherever
    // its holes are by then.
    while (!data.empty()) {
        const auto room = block() - offset % block();
        const auto part = data.first(std::min<std::uint64_t>(room, data.size()));
        if (part.size() % image_page == 0) {
            CHECK_OK(put_block(offset, part, runs));
        } else {
            schema::Bytes padded(part.begin(), part.end());
            padded.resize((part.size() + image_page - 1) / image_page * image_page);
            CHECK_OK(put_block(offset, padded, runs));
        }
        data = data.subspan(part.size());
        offset += part.size();
    }
    return {};
}

Result<> InodeContents::put_block(std::uint64_t offset, std::span<const std::uint8_t> data, Runs* runs) {
    while (!data.empty()) {
        Run* const known = known_from(offset);
        const bool inside = known != nullptr && known->run.at <= offset;
        const auto until = known == nullptr ? offset + data.size()
                           : inside         ? known->run.at + known->run.length
                                            : known->run.at;
        const auto part = data.first(std::min<std::uint64_t>(until - offset, data.size()));
        CHECK_OK(inside ? bring_up(*known, offset, part, runs) : put_new(offset, part, runs));
        data = data.subspan(part.size());
        offset += part.size();
    }
    return {};
}

bool InodeContents::is_unchanged(std::uint64_t offset, std::uint64_t bytes, Runs* runs) {
    constexpr std::size_t most = small_block / image_page;
    if (sight_ == nullptr || bytes > small_block) return false;
    const Run* const known = known_from(offset);
    if (known == nullptr || known->run.at != offset || known->run.length != bytes || !known->hash_known)
        return false;
    std::array<std::uint64_t, most> hashes;
    const auto seen = std::span(hashes).first(known->pages.size());
    if (!sight_->hashes(offset, seen) || !std::ranges::equal(seen, known->pages)) return false;
    if (runs == nullptr) return true;
    const std::scoped_lock lock(mutex_);
    runs->push_back(known->run);
    return true;
}

InodeContents::Run* InodeContents::known_from(std::uint64_t offset) {
    const std::scoped_lock lock(mutex_);
    auto next = known_.upper_bound(offset);
    if (next != known_.begin()) {
        const auto before = std::prev(next);
        if (offset < before->first + before->second.run.length) next = before;
    }
    return next == known_.end() ? nullptr : &next->second;
}

Result<> InodeContents::bring_up(Run& known, std::uint64_t offset, std::span<const std::uint8_t> data,
                                 Runs* runs) {
    const auto first = (offset - known.run.at) / image_page, count = data.size() / image_page;
    const auto place = known.run.offset + first * image_page;
    bool changed = false;
    std::uint64_t written = 0;
    for (std::uint64_t i = 0; i < count;) {
        const auto begin = i;
        for (; i < count; ++i) {
            const auto hash = page_hash(data.subspan(i * image_page, image_page));
            if (std::exchange(known.pages[first + i], hash) == hash) break;
        }
        if (begin == i) {
            ++i;
            continue;
        }
        const auto part = data.subspan(begin * image_page, (i - begin) * image_page);
        CHECK_OK(writer_.write_at(place + begin * image_page, part));
        written += part.size();
        changed = true;
    }
    const bool whole = data.size() == known.run.length;
    schema::ObjectRun run{offset, data.size(), place, 0};
    if (whole && !changed && known.hash_known)
        run.hash = known.run.hash;
    else if (whole || runs != nullptr)
        run.hash = hash64(data);
    if (whole) known.run.hash = run.hash;
    known.hash_known = whole || (known.hash_known && !changed);
    const std::scoped_lock lock(mutex_);
    written_ += written;
    if (runs != nullptr) runs->push_back(run);
    return {};
}

Result<> InodeContents::put_new(std::uint64_t offset, std::span<const std::uint8_t> data, Runs* runs) {
    for (std::uint64_t at = 0; at < data.size();) {
        const auto begin = at;
        while (at < data.size() && !is_zero_page(data.subspan(at, image_page))) at += image_page;
        if (begin == at)
            at += image_page;
        else
            CHECK_OK(write(offset + begin, data.subspan(begin, at - begin), runs));
    }
    return {};
}

Result<> InodeContents::write(std::uint64_t offset, std::span<const std::uint8_t> data, Runs* runs) {
    Run fresh{{offset, data.size(), writer_.reserve(data.size()), hash64(data)}, true, {}};
    CHECK_OK(writer_.write_at(fresh.run.offset, data));
    if (again_)
        for (std::uint64_t at = 0; at < data.size(); at += image_page)
            fresh.pages.push_back(page_hash(data.subspan(at, image_page)));
    const std::scoped_lock lock(mutex_);
    written_ += data.size();
    if (runs != nullptr) runs->push_back(fresh.run);
    if (again_) known_.emplace(offset, std::move(fresh));
    return {};
}

}  // namespace cairn::capture
