// Reads a binary trace as a stream: of each process one block at a time is in memory, and 32 bytes for each
// block of the files, whatever their size.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "causality/trace.h"
#include "causality/trace_format.h"
#include "common/fd.h"

namespace cairn::causality {

class TraceReader final : public TraceSource {
  public:
    // The files of one trace, each process in one of them. Reads all headers of blocks. A last block that a
    // crash cut off is left out, with a note; anything else that isn't right is refused (code damaged), with
    // file and offset.
    [[nodiscard]] static Result<std::unique_ptr<TraceReader>> open(std::span<const std::string> paths);

    [[nodiscard]] Process processes() const override { return static_cast<Process>(streams_.size()); }
    [[nodiscard]] Result<bool> next(Process process, Event& event) override;
    [[nodiscard]] bool ended(Process process) const override { return streams_[process].ended; }
    [[nodiscard]] const std::vector<Place>& places() const override { return places_; }
    [[nodiscard]] const std::vector<Communicator>& communicators() const override { return communicators_; }
    [[nodiscard]] const std::vector<std::string>& notes() const override { return notes_; }
    [[nodiscard]] const std::vector<std::string>& types() const override { return types_; }
    [[nodiscard]] const std::optional<Standing>& standing(Process process) const override {
        return streams_[process].standing;
    }
    [[nodiscard]] const std::vector<Leak>& leaks() const override { return leaks_; }
    [[nodiscard]] bool says_all() const override { return says_all_; }
    [[nodiscard]] std::uint64_t events() const;
    // What a writer needs that goes on with this file: where the last block ends that isn't the end of
    // something, how many there are up to there, and of each process the events and whether it ended before.
    struct Content {
        std::uint64_t bytes = 0;
        std::uint64_t blocks = 0;
        std::vector<std::uint64_t> events;
        std::vector<bool> ended;
        bool has_tail = false;
    };
    [[nodiscard]] Content content() const;  // of a trace of one file
    // Begins again with the first event of each process.
    void rewind();

    TraceReader(const TraceReader&) = delete;
    TraceReader& operator=(const TraceReader&) = delete;
    ~TraceReader() override;

  private:
    struct File;
    struct Block {
        std::uint32_t file;
        std::uint32_t count;
        std::uint32_t bytes;
        std::uint64_t offset;  // of the payload
        std::uint64_t checksum;
    };
    struct Stream {
        std::vector<Block> blocks;
        std::uint64_t events = 0;
        bool ended = false;
        std::optional<Standing> standing;
        std::size_t next_block = 0;
        // The block being read.
        std::vector<std::uint8_t> payload;
        std::unique_ptr<ByteReader> reader;
        EventCoder coder;
        std::uint32_t left = 0;
        std::uint64_t position = 0;
    };

    TraceReader();
    struct NextBlock {
        BlockType type;
        Process process;
        std::uint64_t end;  // where the next one begins
    };

    Result<> add_file(const std::string& path);
    Result<> read_header(const File& file);
    Result<std::optional<NextBlock>> read_block(File& file, std::uint64_t offset, std::uint64_t data_end,
                                                std::uint64_t blocks);
    Result<> read_places(File& file, const BlockHeader& block, std::uint64_t offset,
                         std::span<const std::uint8_t> payload);
    Result<> read_types(File& file, const BlockHeader& block, std::uint64_t offset,
                        std::span<const std::uint8_t> payload);
    Result<> read_leaks(const File& file, const BlockHeader& block, std::uint64_t offset,
                        std::span<const std::uint8_t> payload);
    Result<> read_standing(const File& file, const BlockHeader& block, std::uint64_t offset,
                           std::span<const std::uint8_t> payload);
    // What is in the tail of a file that wasn't closed.
    Result<bool> add_tail(File& file);
    Result<bool> read_blocks(File& file, std::uint64_t& offset, std::uint64_t& blocks);
    Result<> read_communicator(const File& file, const BlockHeader& block, std::uint64_t offset,
                               std::span<const std::uint8_t> payload);
    Result<> add_block(std::uint32_t file, const BlockHeader& header, std::uint64_t offset);
    Result<> load_block(Process process);

    std::vector<File> files_;
    std::vector<Stream> streams_;
    std::vector<Place> places_ = std::vector<Place>(1);
    std::vector<std::string> types_ = std::vector<std::string>(1);
    std::vector<Leak> leaks_;
    bool says_all_ = true;  // no file is of an earlier version
    std::vector<Communicator> communicators_;
    std::vector<std::string> notes_;
};

}  // namespace cairn::causality
