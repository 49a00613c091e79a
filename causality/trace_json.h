// The trace as JSON lines, to read and to write by hand (docs/trace-format.md).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "causality/trace.h"

namespace cairn::causality {

// One line of it.
struct TraceLine {
    enum class What { header, communicator, event, killed, standing, leak } what = What::header;
    Process processes = 0;      // header
    Communicator communicator;  // communicator
    Process process = 0;        // event, killed
    Event event;                // event; its place is in `place`
    Place place;
    std::string type;   // event: what its message is made of
    Standing standing;  // standing; its event and place are those above
    Leak leak;          // leak; its process and place are those above
};

// Code damaged: what is wrong with this line.
[[nodiscard]] Result<TraceLine> parse_trace_line(std::string_view line);
[[nodiscard]] std::string trace_line(const TraceLine& line);

// Lines into a trace, one after the other, with or without their ends.
class TraceLines {
  public:
    // `name` is for messages, which say the line.
    explicit TraceLines(std::string name) : name_(std::move(name)) {}
    [[nodiscard]] Result<> add(std::string_view line);
    [[nodiscard]] Result<std::unique_ptr<MemoryTrace>> finish();

  private:
    std::uint32_t place(const Place& place);
    std::uint32_t type(const std::string& name);

    std::string name_;
    std::unordered_map<std::string, std::uint32_t> places_;
    std::unordered_map<std::string, std::uint32_t> types_;
    std::size_t number_ = 0;
    std::unique_ptr<MemoryTrace> trace_;
};

// `name` is for messages, which say the line.
[[nodiscard]] Result<std::unique_ptr<MemoryTrace>> parse_trace_lines(std::string_view text,
                                                                     std::string_view name);

}  // namespace cairn::causality
