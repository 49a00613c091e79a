// A trace of JSON lines in a file, read as a stream: one pass finds where each process's lines are, and each
// process is then read from there. Memory: for places, communicators, a window of each process, and 16 bytes
// for each run of lines of one process.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "causality/trace_json.h"
#include "common/fd.h"

namespace cairn::causality {

class LinesFile final : public TraceSource {
  public:
    // Code damaged: what is wrong with which line; of events this is known when they are read.
    [[nodiscard]] static Result<std::unique_ptr<LinesFile>> open(const std::string& path);

    // The lines of many processes are mixed: each process's window would go through the whole file.
    [[nodiscard]] bool is_mixed() const { return readers_.size() > 4 && runs_ * 16 > lines_; }

    [[nodiscard]] Process processes() const override { return static_cast<Process>(readers_.size()); }
    [[nodiscard]] Result<bool> next(Process process, Event& event) override;
    [[nodiscard]] bool ended(Process process) const override { return readers_[process].ended; }
    [[nodiscard]] const std::vector<Place>& places() const override { return places_; }
    [[nodiscard]] const std::vector<Communicator>& communicators() const override { return communicators_; }
    [[nodiscard]] const std::vector<std::string>& notes() const override { return notes_; }
    [[nodiscard]] const std::vector<std::string>& types() const override { return types_; }
    [[nodiscard]] const std::optional<Standing>& standing(Process process) const override {
        return readers_[process].standing;
    }
    [[nodiscard]] const std::vector<Leak>& leaks() const override { return leaks_; }

  private:
    // Lines that follow each other in the file.
    struct Run {
        std::uint64_t offset = 0;
        std::uint32_t line = 0;  // the number of the first, from 1
        std::uint32_t count = 0;
    };
    struct Reader {
        std::vector<Run> runs;
        std::size_t run = 0;
        std::uint32_t read = 0;    // of this run
        std::uint64_t offset = 0;  // of what is in the window
        std::string window;
        std::size_t at = 0;
        bool ended = true;
        std::optional<Standing> standing;
    };
    std::uint32_t place(const Place& place);
    std::uint32_t number_of(const Place& place);
    std::uint32_t type(const std::string& name);
    LinesFile() = default;
    Result<> scan();
    // A line that is no event and no header.
    Result<> note_other(TraceLine line, std::uint32_t number);
    Result<> note_line(std::string_view text, std::uint64_t offset, std::uint32_t number);
    Result<bool> next_line(Reader& reader, std::string_view& line);
    [[nodiscard]] std::unexpected<Error> refuse(std::uint32_t number, std::string_view why) const;

    Fd fd_;
    std::uint64_t lines_ = 0, runs_ = 0;
    std::string path_;
    std::vector<Reader> readers_;
    std::vector<Place> places_{1};
    std::unordered_map<std::string, std::uint32_t> numbers_;
    std::array<std::pair<Place, std::uint32_t>, 4> recent_;
    std::size_t next_recent_ = 0;
    std::vector<std::string> types_ = std::vector<std::string>(1);
    std::unordered_map<std::string, std::uint32_t> type_numbers_;
    std::vector<Leak> leaks_;
    std::vector<Communicator> communicators_;
    std::vector<std::string> notes_;
};

}  // namespace cairn::causality
