#include "resources/memory/capture_read.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <optional>
#include <vector>

#include "common/helper_threads.h"
#include "common/image/format.h"

namespace cairn::capture {
namespace {

constexpr auto whole_page = static_cast<off_t>(image_page);

// SEEK_DATA moves a position, and where the file couldn't be opened again it is the program's own.
class KeptPosition {
  public:
    explicit KeptPosition(int fd) : fd_(fd), at_(::lseek(fd, 0, SEEK_CUR)) {}
    KeptPosition(const KeptPosition&) = delete;
    KeptPosition& operator=(const KeptPosition&) = delete;
    ~KeptPosition() { ::lseek(fd_, at_, SEEK_SET); }

  private:
    int fd_;
    off_t at_;
};

struct Part {
    off_t begin = 0, end = 0;
};

std::vector<Part> parts_with_data(int fd, off_t size, off_t block) {
    const KeptPosition position(fd);
    std::vector<Part> parts;
    for (off_t at = 0; at < size;) {
        // A file system that doesn't know holes says that all is data.
        const off_t data = ::lseek(fd, at, SEEK_DATA);
        if (data < 0 && errno == ENXIO) break;
        if (data > at) at = data / whole_page * whole_page;
        const off_t hole = ::lseek(fd, at, SEEK_HOLE);
        const off_t end =
            hole > at ? std::min((hole + whole_page - 1) / whole_page * whole_page, size) : size;
        while (at < end) {
            const off_t stop = std::min(at / block * block + block, end);
            parts.push_back({at, stop});
            at = stop;
        }
    }
    return parts;
}

class Readers {
  public:
    Readers(int fd, const std::string& path, const Reading& reading, std::vector<Part> parts)
        : fd_(fd), path_(path), reading_(reading), parts_(std::move(parts)) {}

    void work() {
        std::vector<std::uint8_t> piece(image_max_run);
        for (;;) {
            const auto index = next_.fetch_add(1);
            if (index >= parts_.size()) return;
            if (auto done = read(parts_[index], piece); !done) {
                const std::scoped_lock lock(mutex_);
                if (!problem_) problem_ = std::move(done.error());
                next_ = parts_.size();
                return;
            }
        }
    }

    [[nodiscard]] Result<> result() {
        if (problem_) return std::unexpected(std::move(*problem_));
        return {};
    }

  private:
    Result<> read(Part part, std::vector<std::uint8_t>& piece) const {
        if (reading_.is_known(static_cast<std::uint64_t>(part.begin),
                              static_cast<std::uint64_t>(part.end - part.begin)))
            return {};
        while (part.begin < part.end) {
            const ssize_t got =
                ::pread(fd_, piece.data(), static_cast<std::size_t>(part.end - part.begin), part.begin);
            if (got < 0) return fail_errno("contents of {} can't be read", path_);
            if (got == 0) return {};
            // Not at a page's end only at the end of the file: pread of a regular file is not short
            // otherwise.
            CHECK_OK(reading_.put(static_cast<std::uint64_t>(part.begin),
                                  std::span(piece).first(static_cast<std::size_t>(got))));
            part.begin += got;
        }
        return {};
    }

    int fd_;
    const std::string& path_;
    const Reading& reading_;
    std::vector<Part> parts_;
    std::atomic<std::size_t> next_ = 0;
    std::mutex mutex_;
    std::optional<Error> problem_;
};

}  // namespace

Result<> read_contents(int fd, std::uint64_t bytes, const std::string& path, const Reading& reading) {
    auto parts = parts_with_data(fd, static_cast<off_t>(bytes), static_cast<off_t>(reading.block));
    const bool worth_help = parts.size() > 4;
    Readers readers(fd, path, reading, std::move(parts));
    {
        const auto help = [&readers] { readers.work(); };
        const auto other = helper_threads(worth_help ? 1 : 0, help);
        readers.work();
    }
    return readers.result();
}

}  // namespace cairn::capture
