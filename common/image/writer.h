// Writes one image file. Page data may be written by several threads, in any order, before the sections.
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/fd.h"
#include "common/image/format.h"
#include "common/schema/process.h"

namespace cairn {

enum class Durable { no, yes };

class ImageWriter {
  public:
    // A new file, mode 0600; one that exists already is an error (EEXIST). `name` is what messages say too.
    // A file that is never finished stays as it is: it has no footer, so nobody takes it for an image.
    [[nodiscard]] static Result<ImageWriter> create(int dirfd, const std::string& name, ImageKind kind);

    ImageWriter(ImageWriter&& other) noexcept;
    ImageWriter& operator=(ImageWriter&&) = delete;

    // Sets aside room for page data: an offset in the file, a multiple of 4096. `bytes` is rounded up to
    // pages; what is never written of it is a hole. Thread-safe.
    [[nodiscard]] std::uint64_t reserve(std::uint64_t bytes);

    // Writes all of it. Thread-safe. Errors: errno of pwrite(2), ENOSPC among them.
    [[nodiscard]] Result<> write_at(std::uint64_t offset, std::span<const std::uint8_t> data);
    [[nodiscard]] Result<> write_at(std::uint64_t offset, std::span<const iovec> parts);

    // Gives the descriptor back until unpark(): for who has more images than descriptors. Nothing may be
    // written meanwhile, and `dirfd` of create() has to stay open.
    void park() { fd_.reset(); }
    [[nodiscard]] Result<> unpark();

    // For who copies into the file himself (splice, copy_file_range). Stays the writer's.
    [[nodiscard]] int fd() const { return fd_.get(); }

    // Kept in memory until finish(). At most image_max_section bytes, image_max_sections sections.
    void add_section(SectionType type, schema::Bytes data);

    // Writes sections, table and, last, the footer. Durable::yes: fsync(2) too (not of the folder).
    // Returns the size of the file in bytes. Nothing may be written afterwards.
    [[nodiscard]] Result<std::uint64_t> finish(Durable durable);

  private:
    ImageWriter(int dirfd, Fd fd, std::string name, std::uint64_t id)
        : dirfd_(dirfd), fd_(std::move(fd)), name_(std::move(name)), id_(id) {}

    void start_writeback(std::uint64_t bytes);

    struct Pending {
        SectionType type;
        schema::Bytes data;
    };
    int dirfd_;
    Fd fd_;
    std::string name_;
    std::uint64_t id_;
    std::atomic<std::uint64_t> end_ = image_page;  // where the next reservation begins
    std::atomic<std::uint64_t> written_ = 0;       // bytes
    std::vector<Pending> sections_;
};

}  // namespace cairn
