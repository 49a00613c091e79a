// Copies by blocks, and only those that are others than before.
#include "resources/saved/capture_copy.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <span>

#include "common/helper_threads.h"
#include "common/image/hash.h"

namespace cairn::capture {
namespace {

// So much at a time is looked at between two words of how far it is.
constexpr std::uint64_t copied_piece = std::uint64_t{32} << 20;

struct DataRange {
    std::uint64_t begin = 0, end = 0;
};

// What isn't a hole between the two. Where the file system can't tell, all of it.
std::vector<DataRange> data_between(int file, std::uint64_t begin, std::uint64_t end) {
    std::vector<DataRange> ranges;
    for (std::uint64_t at = begin; at < end;) {
        const off_t data = ::lseek(file, static_cast<off_t>(at), SEEK_DATA);
        if (data < 0 && errno != ENXIO) return {{begin, end}};
        if (data < 0 || static_cast<std::uint64_t>(data) >= end) break;
        const off_t hole = ::lseek(file, data, SEEK_HOLE);
        const auto stop = hole < 0 ? end : std::min(static_cast<std::uint64_t>(hole), end);
        ranges.push_back({static_cast<std::uint64_t>(data), stop});
        at = stop;
    }
    return ranges;
}

template <class Iterator>
std::vector<DataRange> parts_in(Iterator first, Iterator last, std::uint64_t begin, std::uint64_t end) {
    std::vector<DataRange> parts;
    for (; first != last && first->begin < end; ++first)
        parts.push_back({std::max(first->begin, begin), std::min(first->end, end)});
    return parts;
}

// What the file is shorter by than was thought is zeros: somebody outside cuts it.
Result<> read_all(int file, std::span<std::uint8_t> to, std::uint64_t at) {
    for (std::size_t done = 0; done < to.size();) {
        const ssize_t got = ::pread(file, &to[done], to.size() - done, static_cast<off_t>(at + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return fail_errno("reading");
        if (got == 0) std::ranges::fill(to.subspan(done), std::uint8_t{0});
        done += got == 0 ? to.size() - done : static_cast<std::size_t>(got);
    }
    return {};
}

Result<> write_all(int file, std::span<const std::uint8_t> from, std::uint64_t at) {
    for (std::size_t done = 0; done < from.size();) {
        const ssize_t wrote = ::pwrite(file, &from[done], from.size() - done, static_cast<off_t>(at + done));
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) return fail_errno("writing the copy");
        done += static_cast<std::size_t>(wrote);
    }
    return {};
}

}  // namespace

Result<std::uint64_t> BlockCopy::piece(int from, int to, std::uint64_t begin, std::uint64_t end,
                                       std::size_t known) {
    std::vector<std::uint8_t> buffer(block);
    const auto ranges = data_between(from, begin, end);
    std::uint64_t written = 0;
    auto next = ranges.begin();
    for (std::uint64_t at = begin; at < end; at += block) {
        const auto length = std::min(block, end - at);
        const std::span bytes(buffer.data(), length);
        while (next != ranges.end() && next->end <= at) ++next;
        // Nothing but the ranges: a hole that is being filled at this moment has to be what its hash says.
        std::ranges::fill(bytes, std::uint8_t{0});
        const auto parts = parts_in(next, ranges.end(), at, at + length);
        for (const auto& part : parts)
            CHECK_OK(read_all(from, bytes.subspan(part.begin - at, part.end - part.begin), part.begin));
        const auto hash = hash64(bytes);
        auto& before = hashes_[at / block];
        const bool is_new = at / block >= known;
        if (!is_new && before == hash) continue;
        before = hash;
        if (!is_new) {
            CHECK_OK(write_all(to, bytes, at));
            written += length;
            continue;
        }
        for (const auto& part : parts) {
            CHECK_OK(write_all(to, bytes.subspan(part.begin - at, part.end - part.begin), part.begin));
            written += part.end - part.begin;
        }
    }
    return written;
}

Result<std::uint64_t> BlockCopy::update(int from, int to, std::uint64_t size, std::size_t helpers,
                                        const CopyTold& told) {
    // The last block of before may have been a short one: what it was has no meaning for a longer one.
    const std::size_t known = std::min(size, size_) / block + (size == size_ && size % block != 0 ? 1 : 0);
    // What is behind them in the copy has been something: a hole must not show it.
    if (::ftruncate(to, static_cast<off_t>(std::min(known * block, size))) != 0 ||
        ::ftruncate(to, static_cast<off_t>(size)) != 0)
        return fail_errno("writing the copy");
    hashes_.resize((size + block - 1) / block);
    size_ = size;
    std::atomic<std::uint64_t> next = 0, written = 0;
    std::atomic<bool> failed = false;
    std::mutex mutex;
    Error problem;
    const auto work = [&](bool tells) {
        for (;;) {
            const auto begin = next.fetch_add(copied_piece);
            if (begin >= size || failed) return;
            const auto end = std::min(begin + copied_piece, size);
            auto done = piece(from, to, begin, end, known);
            Result<> fine = done ? (tells ? told(end - begin) : Result<>())
                                 : Result<>(std::unexpected(std::move(done.error())));
            if (fine) {
                written += *done;
                continue;
            }
            const std::scoped_lock lock(mutex);
            if (!failed.exchange(true)) problem = std::move(fine.error());
            return;
        }
    };
    {
        const auto help = [&work] { work(false); };
        const auto pieces = static_cast<std::size_t>((size + copied_piece - 1) / copied_piece);
        const auto others = helper_threads(pieces < 2 ? 0 : std::min(helpers, pieces - 1), help);
        work(true);
    }
    if (failed) return std::unexpected(std::move(problem));
    return written.load();
}

}  // namespace cairn::capture
