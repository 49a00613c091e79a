// A trace: the events of each process in order, and what they refer to. Where it comes from (files that may
// be larger than memory, or memory) is behind TraceSource; linearize.h finds out whether it makes sense.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "causality/event.h"
#include "common/error.h"

namespace cairn::causality {

class TraceSource {
  public:
    TraceSource() = default;
    TraceSource(const TraceSource&) = delete;
    TraceSource& operator=(const TraceSource&) = delete;
    TraceSource(TraceSource&&) = default;
    TraceSource& operator=(TraceSource&&) = default;
    virtual ~TraceSource() = default;

    [[nodiscard]] virtual Process processes() const = 0;
    // The next event of this process into `event`; false at its end. Code damaged: what is wrong, and where.
    [[nodiscard]] virtual Result<bool> next(Process process, Event& event) = 0;
    // Whether the process's last event is its last, not just the last that reached the file.
    [[nodiscard]] virtual bool ended(Process process) const = 0;
    // An event's place is an index into these; entry 0 is the unknown one.
    [[nodiscard]] virtual const std::vector<Place>& places() const = 0;
    // Without communicator 0.
    [[nodiscard]] virtual const std::vector<Communicator>& communicators() const = 0;
    // What a reader should know, such as "the last block of x was lost in a crash".
    [[nodiscard]] virtual const std::vector<std::string>& notes() const = 0;
    // Whether its form could say what receives asked for and how long messages are, if its writer knew.
    [[nodiscard]] virtual bool says_all() const { return true; }
    // What messages are made of, by name; entry 0 is the unknown one.
    [[nodiscard]] virtual const std::vector<std::string>& types() const { return no_types; }
    // The call that the process was in at its end, if it was in one and that is known.
    [[nodiscard]] virtual const std::optional<Standing>& standing(Process) const { return no_standing; }
    [[nodiscard]] virtual const std::vector<Leak>& leaks() const { return no_leaks; }

  private:
    static const std::vector<std::string> no_types;
    static const std::optional<Standing> no_standing;
    static const std::vector<Leak> no_leaks;
};

// What of an event can be judged without the others: fields that its kind doesn't have, peers out of range.
// `what` is set to the reason if it isn't right.
[[nodiscard]] bool plausible(const Event& event, Process processes, std::size_t places, const char*& what);

// A trace in memory. A source by itself: reading starts at the first event of each process.
class MemoryTrace final : public TraceSource {
  public:
    explicit MemoryTrace(Process processes)
        : events_(processes), read_(processes), ended_(processes, true), standing_(processes) {}

    Event& append(Process process, const Event& event) { return events_[process].emplace_back(event); }
    [[nodiscard]] std::uint32_t place(const Place& place);
    // With the next number, whether there is an equal one or not.
    void add_place(const Place& place) { places_.push_back(place); }
    [[nodiscard]] std::uint32_t type(const std::string& name);
    void set_standing(Process process, Standing standing) { standing_[process] = std::move(standing); }
    void set_says_all(bool says_all) { says_all_ = says_all; }
    [[nodiscard]] bool says_all() const override { return says_all_; }
    void add_leak(const Leak& leak) { leaks_.push_back(leak); }
    // Replaces an earlier one of the same id.
    void communicator(Communicator communicator);
    void set_ended(Process process, bool ended) { ended_[process] = ended; }
    void add_note(std::string note) { notes_.push_back(std::move(note)); }
    void rewind();

    [[nodiscard]] const std::vector<Event>& events(Process process) const { return events_[process]; }
    [[nodiscard]] std::vector<Event>& events(Process process) { return events_[process]; }

    [[nodiscard]] Process processes() const override { return static_cast<Process>(events_.size()); }
    [[nodiscard]] Result<bool> next(Process process, Event& event) override;
    [[nodiscard]] bool ended(Process process) const override { return ended_[process]; }
    [[nodiscard]] const std::vector<Place>& places() const override { return places_; }
    [[nodiscard]] const std::vector<Communicator>& communicators() const override { return communicators_; }
    [[nodiscard]] const std::vector<std::string>& notes() const override { return notes_; }
    [[nodiscard]] const std::vector<std::string>& types() const override { return types_; }
    [[nodiscard]] const std::optional<Standing>& standing(Process process) const override {
        return standing_[process];
    }
    [[nodiscard]] const std::vector<Leak>& leaks() const override { return leaks_; }

  private:
    std::vector<std::vector<Event>> events_;
    std::vector<Position> read_;
    std::vector<bool> ended_;
    std::vector<Place> places_ = std::vector<Place>(1);
    std::vector<std::string> types_ = std::vector<std::string>(1);
    std::vector<std::optional<Standing>> standing_;
    std::vector<Leak> leaks_;
    bool says_all_ = true;
    std::vector<Communicator> communicators_;
    std::vector<std::string> notes_;
};

}  // namespace cairn::causality
