// Reads the record of one process: each column as a stream of its own, a block of it at a time in memory.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/fd.h"
#include "mpi/record/format.h"

namespace cairn::mpi {

class RecordReader {
  public:
    // Reads the headers of all blocks, and checks all checksums. A last block that is cut is left out if the
    // tail has what was in it. Code damaged: with the file, and what is wrong with it.
    [[nodiscard]] static Result<std::unique_ptr<RecordReader>> open(const std::string& folder, int rank);

    [[nodiscard]] const Identity& identity() const { return identity_; }
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
        SegmentHeader header;
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
    Result<> read_blocks(std::uint64_t offset, std::uint64_t size, bool tail_there);
    Result<> read_tail(const std::string& path);
    std::optional<std::uint8_t> byte(Stream& stream);

    Fd fd_;
    std::string path_;
    Identity identity_;
    Stream streams_[columns];
    std::uint32_t blocks_ = 0;
    bool closed_ = false;
    std::uint64_t begun_ = 0, done_ = 0, open_falses_ = 0, file_bytes_ = 0;
    std::vector<std::string> remarks_;
};

}  // namespace cairn::mpi
