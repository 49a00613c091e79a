// The history of one rank: it can be brought to any of its states, forward by running it alone, back by
// running a copy of the nearest checkpoint before.
#pragma once

#include <array>
#include <csignal>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "mpi/debug/images.h"
#include "mpi/debug/process.h"
#include "mpi/tool/launch.h"

namespace cairn::mpi::debug {

struct Bounds {
    double back_within = 1;     // seconds of running that a way back may take
    unsigned checkpoints = 32;  // of each rank, beside the initial state
    std::uint64_t every = 0;    // calls; 0: by time only
    std::uint64_t memory = 0;   // bytes that the checkpoints of a rank may have; 0: any
    bool make_way = false;      // others on this machine come first
};

// What a program prints is shown once, however often it runs through that place.
using Show = std::function<void(int rank, bool error, const std::string& text)>;

// Set by a signal: whoever runs a process gives up.
extern volatile std::sig_atomic_t interrupted;

class History {
  public:
    // `images`: may be null; outlives it.
    History(int rank, tool::Launch launch, Bounds bounds, Show show, Images* images)
        : rank_(rank), launch_(std::move(launch)), bounds_(bounds), show_(std::move(show)), images_(images) {}

    // Starts the program, if it isn't yet, and brings it there. Code refused: it departs from its record, or
    // ends before; it then stands as far as it came, or nowhere.
    [[nodiscard]] Result<> go(Spot to);
    // It runs there, and nobody waits until go() to the same spot comes, which is to be the next thing that
    // is asked of it: for several ranks at once. It takes no checkpoints on that way.
    [[nodiscard]] Result<> set_out(Spot to);
    // It and its checkpoints are no more.
    void forget() {
        live_ = Checkpoint();
        checkpoints_.clear();
    }
    // An image of how it stands, durable when this returns. For one whose images are only made when they are
    // asked for.
    [[nodiscard]] Result<> save();
    [[nodiscard]] bool there() const { return live_.process.there(); }
    [[nodiscard]] Spot spot() const { return live_.spot; }
    [[nodiscard]] const Report& report() const { return live_.report; }
    [[nodiscard]] pid_t pid() const { return live_.process.pid(); }
    // A copy of it as it stands now, or as it stood at the nearest checkpoint before or at `at`.
    [[nodiscard]] Result<RankProcess> copy();
    // A copy of the initial state that has run to where it stands, without a stop.
    [[nodiscard]] Result<RankProcess> straight();
    // How it goes on behind its last event, where its record breaks off.
    struct End {
        Why why = Why::there;
        std::string text;  // cut: what_is_waited_for(); there: how the process ended
    };
    [[nodiscard]] Result<End> end(std::uint64_t events);
    struct Checkpoint {
        RankProcess process;
        Spot spot;
        Report report;
        double at = 0;                           // seconds of running from the program's start
        std::array<std::uint64_t, 2> written{};  // bytes of its output and of its errors before
        std::uint64_t memory = 0;                // its share, when last looked at, in bytes
        std::string session;                     // of cairn's, in which its copies can be saved
    };
    // How a copy of this rank goes on from where the rank stands, to that spot, or its end, or where it
    // departs from the record. Nothing of what it prints is shown; it still stands afterwards, if it hasn't
    // ended.
    struct Way {
        End end;
        Report report;
        std::string printed;
    };
    [[nodiscard]] Result<Way> way_of(Checkpoint& copy, Spot to = {~std::uint64_t{0}, false});
    [[nodiscard]] Result<Checkpoint> standing_copy() { return fork(live_); }
    // "frame PLACE" for each function, innermost first.
    [[nodiscard]] Result<std::vector<std::string>> stack();
    // What the call of a state has brought the rank: a message, or a part of a collective.
    struct Given {
        std::uint64_t elements = 0, bytes = 0;
        std::string head;  // the first bytes
        std::string type;  // its name; "": one without
    };
    struct Seen {
        std::vector<std::string> stack;
        std::vector<Given> given;
    };
    // How it looks in that state: a copy of the nearest checkpoint runs there, and the rank itself doesn't
    // move. Nothing of what it prints is shown.
    [[nodiscard]] Result<Seen> look(Spot at);

    // In their order; the first is the initial state.
    [[nodiscard]] const std::vector<Checkpoint>& checkpoints() const { return checkpoints_; }
    // A copy of this one, which stands there.
    [[nodiscard]] Result<RankProcess> copy_of(const Checkpoint& checkpoint);
    // How many have been taken on the way, those that are no more included.
    [[nodiscard]] std::uint64_t taken() const { return taken_; }
    // Seconds.
    [[nodiscard]] double longest_fork() const { return longest_fork_; }

  private:
    [[nodiscard]] Result<> start();
    [[nodiscard]] Result<double> stand_before(Spot to);
    // `pace`: about how many seconds an event takes; 0: that isn't known.
    [[nodiscard]] Result<> run(Spot to, double pace);
    [[nodiscard]] Result<> run_with_checkpoints(Spot to, double pace);
    [[nodiscard]] double next_checkpoint(Spot to, double pace) const;
    [[nodiscard]] Result<RankProcess::Message> hear(Checkpoint& from);
    [[nodiscard]] Result<Checkpoint> fork(const Checkpoint& from);
    [[nodiscard]] static Result<Seen> seen_of(const Checkpoint& copy);
    // Of an image: a checkpoint without a word yet.
    [[nodiscard]] Result<Checkpoint> bring_back(const Image& image);
    [[nodiscard]] Result<> begin_program(Checkpoint& first);
    void look_for_image(const Spot& to);
    void save_one();
    [[nodiscard]] Result<> begin_image(const Checkpoint& of);
    void drain(Checkpoint& from);
    void keep(Checkpoint checkpoint);
    void thin_out(Spot added);
    void look_at_memory(std::size_t changed);
    [[nodiscard]] bool too_many() const;
    [[nodiscard]] double interval() const;
    [[nodiscard]] const Checkpoint& last_before(const Spot& spot) const;

    int rank_;
    tool::Launch launch_;
    Bounds bounds_;
    Show show_;
    Images* images_;
    Fd output_[2];  // of all its processes, of which one runs at a time
    std::array<std::uint64_t, 2> shown_{};
    std::vector<Checkpoint> checkpoints_;
    Checkpoint live_;
    bool on_its_way_ = false;
    std::size_t looked_ = 0;  // the last checkpoint whose memory was looked at in its turn
    double looked_at_ = 0;    // when
    std::uint64_t taken_ = 0;
    double longest_fork_ = 0;
};

}  // namespace cairn::mpi::debug
