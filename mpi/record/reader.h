// Reads the record of one process: each column as a stream of its own, a block of it at a time in memory.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/fd.h"
#include "mpi/record/beginning.h"
#include "mpi/record/format.h"

namespace cairn::mpi {

class RecordReader {
  public:
    // Reads the headers of all blocks, and checks all checksums. A last block that is cut is left out if the
    // tail has what was in it. Code damaged: with the file, and what is wrong with it.
    // The program may still run: then it is the record as it was at one moment.
    [[nodiscard]] static Result<std::unique_ptr<RecordReader>> open(const std::string& folder, int rank);

    [[nodiscard]] const Identity& identity() const { return identity_; }
    // Where it begins, if its first part has been removed: each column then begins with the block there.
    [[nodiscard]] const std::optional<Beginning>& beginning() const { return beginning_; }
    // Where the blocks begin, or began.
    [[nodiscard]] std::uint64_t header_bytes() const { return header_; }
    // The first block that has anything of what comes behind so many calls: where it is, and its number.
    struct BlockPlace {
        std::uint64_t offset = 0;
        std::uint32_t number = 0;
    };
    [[nodiscard]] BlockPlace first_block_behind(std::uint64_t calls) const;

    // Whether there is more in the files than when they were opened, or something else.
    [[nodiscard]] bool has_grown() const;
    // Reads on in each column where `earlier` is, an older reader of the same record. Code damaged: the
    // record has been written anew meanwhile.
    [[nodiscard]] Result<> go_on_as(const RecordReader& earlier);

    // The next number of a column; nothing at its end.
    [[nodiscard]] std::optional<std::uint64_t> next(Column column);
    // What RecordWriter::put_bytes wrote.
    [[nodiscard]] std::optional<std::string> next_bytes(Column column);

    // The program went through MPI_Finalize.
    [[nodiscard]] bool closed() const { return closed_; }
    [[nodiscard]] std::uint64_t begun() const { return begun_; }  // calls
    [[nodiscard]] std::uint64_t done() const { return done_; }    // of them returned
    // What of these was still being counted when the record ends.
    [[nodiscard]] std::uint64_t open_falses() const { return open_falses_; }
    // Why the record ends before the program did, and other things a reader should know.
    [[nodiscard]] const std::vector<std::string>& remarks() const { return remarks_; }
    // Of the files; of each column as numbers, and as it is in the file.
    [[nodiscard]] std::uint64_t file_bytes() const { return file_bytes_; }
    [[nodiscard]] std::uint64_t packed_bytes(Column column) const {
        return streams_[static_cast<std::size_t>(column)].packed;
    }

  private:
    struct Segment {
        std::uint64_t offset;
        std::uint32_t block;
        SegmentHeader header;
    };
    struct BlockEnd {
        std::uint64_t offset;  // of the block
        std::uint64_t events;  // calls that had begun when it was written
    };
    struct Stream {
        std::vector<Segment> segments;
        std::vector<std::uint8_t> tail;
        std::size_t next_segment = 0;
        bool tail_taken = false;
        std::vector<std::uint8_t> bytes;
        std::size_t at = 0;
        std::uint64_t packed = 0;
    };
    RecordReader() = default;
    bool fill(Stream& stream);
    Result<> begin_behind(const std::string& folder, std::uint64_t header);
    Result<> read_blocks(std::uint64_t size, bool tail_there);
    // False: there are blocks that aren't read yet.
    Result<bool> read_tail(const std::string& path);
    Result<> read_all();
    std::optional<std::uint8_t> byte(Stream& stream);

    Fd fd_;
    std::string path_, tail_path_;
    Identity identity_;
    std::optional<Beginning> beginning_;
    Stream streams_[columns];
    std::uint32_t blocks_ = 0;  // the number of the next one
    std::uint64_t end_ = 0;     // of those that are read, in the file
    std::uint64_t header_ = 0;
    std::vector<BlockEnd> written_;  // those that are there
    std::uint64_t tail_hash_ = 0;
    bool closed_ = false;
    std::uint64_t begun_ = 0, done_ = 0, open_falses_ = 0, file_bytes_ = 0;
    std::vector<std::string> remarks_;
};

}  // namespace cairn::mpi
