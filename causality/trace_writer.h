// Appends a binary trace while its program runs.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "causality/trace_format.h"
#include "causality/trace_tail.h"
#include "common/fd.h"

namespace cairn::causality {

// One file, with the events of one process or of many: a trace may be spread over files, each process in one
// of them. Events gather in a buffer for each process and go to the file a block at a time, by one write(2)
// to its end; a crash of the program loses what is in the buffers. After a failed write (disk full) every
// call fails with the same error, and the file is good up to there. Not for several threads at a time.
class TraceWriter {
  public:
    static constexpr std::size_t usual_block = 64U << 10;

    // `path` must not exist. `block_bytes`: a block is written when it has grown to this. `tail_of`: what is
    // in this process's buffer outlives the process (trace_tail.h).
    [[nodiscard]] static Result<TraceWriter> create(const std::string& path, Process processes,
                                                    std::size_t block_bytes = usual_block,
                                                    Process tail_of = none);

    // Goes on with a file that create() made, whether it was closed or its program was killed: behind its
    // last whole block. Ends of processes and of the file that stand there are taken back. Nobody else may be
    // writing it.
    [[nodiscard]] static Result<TraceWriter> resume(const std::string& path,
                                                    std::size_t block_bytes = usual_block);
    // Of the process, those still in the buffer included: the number of its next event.
    [[nodiscard]] std::uint64_t events(Process process) const {
        return buffers_[process].first + buffers_[process].count;
    }

    // The number to use for this place; the same for an equal one.
    [[nodiscard]] Result<std::uint32_t> place(const Place& place);
    // The number to use for this name of what messages are made of; the same for an equal one.
    [[nodiscard]] Result<std::uint32_t> type(const std::string& name);
    [[nodiscard]] Result<> leak(const Leak& leak);
    // The call that the process was in when it ended. With a tail it is said there, and taken back when the
    // process has left it; without it costs a block.
    [[nodiscard]] Result<> standing(Process process, const Standing& standing);
    [[nodiscard]] std::optional<TraceTail>& tail() { return tail_; }
    [[nodiscard]] Result<> communicator(const Communicator& communicator);
    // Not checked here but for the process: a wrong trace is found by its reader.
    [[nodiscard]] Result<> append(Process process, const Event& event);
    // An event whose call hasn't returned: lasted() says how long it took, if it comes before anything else
    // of this process.
    [[nodiscard]] Result<> append_open(Process process, const Event& event);
    void lasted(Process process, std::int64_t took);
    // Writes what is in the buffers, so that a crash from here on doesn't cost it.
    [[nodiscard]] Result<> flush();
    // This process has no more events.
    [[nodiscard]] Result<> end(Process process);
    // Ends every process that has events and isn't ended, and the file. Without it a reader takes the trace
    // for one of a program that was killed.
    [[nodiscard]] Result<> close();
    // Ends the file, but no process: those that end() wasn't called for were killed.
    [[nodiscard]] Result<> close_unended();

    [[nodiscard]] std::uint64_t bytes_written() const { return bytes_; }

  private:
    struct Buffer {
        std::vector<std::uint8_t> payload;
        EventCoder coder;
        std::uint64_t first = 0;
        std::uint32_t count = 0;
        bool ended = false;
        bool open = false;  // what it ends with is the time for lasted()
    };

    TraceWriter(Fd fd, std::string path, Process processes, std::size_t block_bytes);
    Result<> write_block(BlockHeader header, std::span<const std::uint8_t> payload);
    Result<> flush(Process process);
    Result<> append(Process process, const Event& event, bool open);

    Fd fd_;
    std::string path_;
    std::size_t block_bytes_;
    std::vector<Buffer> buffers_;
    std::map<Place, std::uint32_t> places_;
    std::map<std::string, std::uint32_t> types_;
    std::optional<TraceTail> tail_;
    Process tail_of_ = none;
    std::vector<std::uint8_t> scratch_;
    std::uint64_t bytes_ = 0;
    std::uint64_t blocks_ = 0;
    std::string failure_;
};

}  // namespace cairn::causality
