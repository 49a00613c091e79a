// Writes one image file. Page data may be written by several threads, in any order, before the sections.
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/fd.h"
#include "common/image/backlog.h"
#include "common/image/chunks.h"
#include "common/image/early_sync.h"
#include "common/image/format.h"
#include "common/schema/process.h"

namespace cairn {

enum class Durable { no, yes };

class ImageWriter {
  public:
    // A new file, mode 0600; one that exists already is an error (EEXIST). `name` is what messages say too.
    // A file that is never finished stays as it is: it has no footer, so nobody takes it for an image.
    [[nodiscard]] static Result<ImageWriter> create(int dirfd, const std::string& name, ImageKind kind,
                                                    Compression compression = {});

    // The same, parked: the file is made by the first unpark(), which has the errors then. For who has no
    // time yet: making a file takes the file system longer than a process of a few pages stands still
    // otherwise.
    [[nodiscard]] static Result<ImageWriter> plan(int dirfd, const std::string& name, ImageKind kind,
                                                  Compression compression = {});

    ImageWriter(ImageWriter&& other) noexcept;
    ImageWriter& operator=(ImageWriter&&) = delete;

    // Until this is called pages of a compressed image are stored as they are: for who has no time yet.
    void compress_from_now() { compressing_ = true; }

    [[nodiscard]] std::uint64_t id() const { return id_; }  // random

    // Sets aside room for page data: an offset by which page runs name it, a multiple of 4096 (in the file,
    // unless that is compressed). `bytes` is rounded up to pages; what is never written of it is a hole.
    // Thread-safe.
    [[nodiscard]] std::uint64_t reserve(std::uint64_t bytes);

    // Writes all of it, whole pages; each once, if the image is compressed. Thread-safe. Errors: errno of
    // pwrite(2), ENOSPC among them.
    [[nodiscard]] Result<> write_at(std::uint64_t offset, std::span<const std::uint8_t> data);
    // The same of what lies in several places: together it is compressed better than by itself.
    [[nodiscard]] Result<> write_at(std::uint64_t offset, std::span<const iovec> parts);

    // Gives the descriptor back until unpark(): for who has more images than descriptors. Nothing may be
    // written meanwhile, and `dirfd` of create() has to stay open. The disk begins with what was written.
    void park();
    [[nodiscard]] Result<> unpark();

    // Kept in memory until finish(). At most image_max_section bytes, image_max_sections sections.
    void add_section(SectionType type, schema::Bytes data);

    // Writes sections, table and, last, the footer. Durable::yes: sync() too. Returns the size of the file in
    // bytes. Nothing may be written afterwards.
    [[nodiscard]] Result<std::uint64_t> finish(Durable durable);
    // fsync(2), not of the folder. Of many images all are to be finished and parked before the first is
    // synced: the disk takes what was begun for all of them together.
    [[nodiscard]] Result<> sync();

  private:
    ImageWriter(int dirfd, std::string name, const ImageHeader& header, Compression compression)
        : dirfd_(dirfd),
          name_(std::move(name)),
          id_(header.id),
          planned_(header),
          compression_(compression) {}

    [[nodiscard]] bool has_chunks() const {
        return compression_.codec != Codec::none || compression_.automatic;
    }
    [[nodiscard]] Result<> make_file(const ImageHeader& header);
    [[nodiscard]] Result<> write_plain(std::uint64_t at, std::span<const std::uint8_t> data);
    [[nodiscard]] Result<> write_plain(std::uint64_t at, std::span<const iovec> parts);
    [[nodiscard]] Result<> write_uncompressed_chunks(std::uint64_t offset, std::span<const iovec> parts);
    [[nodiscard]] Result<> write_chunks(std::uint64_t offset, std::span<const std::uint8_t> data);

    void start_writeback(std::uint64_t bytes);
    void ask_for_writeback();
    void end_early_sync();
    [[nodiscard]] Compression how_now() const;

    struct Pending {
        SectionType type;
        schema::Bytes data;
    };
    int dirfd_;
    Fd fd_;
    std::string name_;
    std::uint64_t id_;
    std::optional<ImageHeader> planned_;  // there is no file yet, and it will begin with this
    Compression compression_;
    bool compressing_ = false;
    std::unique_ptr<DiskBacklog> backlog_ = std::make_unique<DiskBacklog>();  // of automatic compression
    std::unique_ptr<EarlySync> early_sync_ = std::make_unique<EarlySync>();
    int sync_error_ = 0;                             // errno of a part that couldn't be brought to the disk
    std::atomic<std::uint64_t> end_ = image_page;    // where the next reservation begins
    std::atomic<std::uint64_t> written_ = 0;         // bytes
    std::atomic<std::uint64_t> asked_ = 0;           // of these the kernel was asked to write
    std::atomic<std::uint64_t> place_ = image_page;  // where in the file the next chunk begins
    std::mutex chunks_mutex_;
    std::vector<ImageChunk> chunks_;
    std::vector<Pending> sections_;
};

}  // namespace cairn
