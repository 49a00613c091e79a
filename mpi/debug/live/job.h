// The processes of a whole replayed job, mpiexec and ranks: launched in a session of cairn's, moved from one
// stop to the next, saved while all stand, and brought back. What a stop is says mpi/interposer/breakpoint.h.
#pragma once

#include <sys/types.h>

#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "causality/cuts.h"
#include "mpi/debug/cairn_tools.h"
#include "mpi/debug/history.h"
#include "mpi/record/standing.h"

namespace cairn::mpi::debug::live {

class Job {
  public:
    // `scratch`: a folder of this debugger's. `disk`: one for checkpoints, which is made.
    Job(std::string scratch, std::string disk, int ranks, Show show);
    Job(const Job&) = delete;
    Job& operator=(const Job&) = delete;
    ~Job();

    // Runs the command to its end, in no session and with nothing shown. Code refused: it doesn't come to a
    // good one.
    [[nodiscard]] Result<> run_once(const std::vector<std::string>& words);

    // Returns when all stand at their beginning; `words` is `cairn mpi replay` and what belongs to it.
    [[nodiscard]] Result<> start(const std::vector<std::string>& words);
    // All go to the stop that this line of tool::stops_of says, which is at that cut, and stand there. Where
    // one waits in a call that is no event (of one-sided operations, or to spawn) the others, except `stays`
    // if there is one, go on up to their next event, or to where they wait in such a call themselves. False:
    // that isn't enough; it is to be called again with a later cut. Code refused: the job has ended before,
    // or the user has interrupted; it is to be brought back then.
    [[nodiscard]] Result<bool> run_to(const std::string& stops, const causality::Cut& cut,
                                      std::optional<causality::Process> stays);
    // Waits on, until nobody has moved for ten seconds.
    [[nodiscard]] Result<bool> wait_on() { return wait_until_all_stand(10'000); }
    // One that isn't `there` waits in a call that is no event: the function's name is all of its stack.
    [[nodiscard]] Standing standing(int rank) const;

    // The job goes on freely from where all stand, to its end, and `folder` gets the record of that run, its
    // beginning included; whoever stood at a place of the program's is to be brought back then. Returns how
    // the job has ended. Code refused: the user has interrupted.
    [[nodiscard]] Result<std::string> leave(const std::string& folder);
    // Ranks that can't go on freely (Whereabouts::bound).
    [[nodiscard]] std::vector<int> bound() const;

    struct Checkpoint {
        std::string folder;
        unsigned stop = 0;
        causality::Cut cut;
        std::set<int> released;
        std::vector<Whereabouts> whereabouts;    // of each rank
        std::array<std::uint64_t, 2> written{};  // bytes of its output and of its errors
        std::uint64_t bytes = 0;                 // on the disk, of which others may have some as well
        double seconds = 0;                      // that it took until it was durable
    };
    // Of all, where they stand.
    [[nodiscard]] Result<Checkpoint> save();
    // What runs is ended, and all stand where they stood then.
    [[nodiscard]] Result<> bring_back(const Checkpoint& checkpoint);
    void remove(const Checkpoint& checkpoint) const;
    // Whole lines that mpiexec has brought since all stood: it may be later than they by any time.
    void show_late_output() { show_output(false); }

  private:
    enum Stream : unsigned { output, errors };

    [[nodiscard]] Result<> write_next(const std::string& stops);
    // `patience`: how long nobody may have moved, in milliseconds.
    [[nodiscard]] Result<bool> wait_until_all_stand(std::int64_t patience = 1'000);
    [[nodiscard]] bool stands(int rank) const;
    [[nodiscard]] Whereabouts whereabouts(int rank) const;
    [[nodiscard]] std::int64_t nobody_has_moved_for();
    void say_who_is_late(std::int64_t since);
    [[nodiscard]] Result<bool> release_who_stands();
    [[nodiscard]] Result<> run_tool(const std::vector<std::string>& words, const std::string& log);
    [[nodiscard]] std::string path_of(Stream stream) const;
    [[nodiscard]] std::string mpirun_folder() const { return tools_.scratch() + "/mpirun"; }
    void end();
    void reap();
    pid_t begun(pid_t pid);
    [[nodiscard]] bool over(pid_t pid);
    void forget_stops() const;
    void show_output(bool all);
    void show_what_still_comes();
    void show_line(Stream stream, const std::string& line);
    [[nodiscard]] static std::string last_words(const std::string& log);

    CairnTools tools_;
    std::string disk_;
    int ranks_;
    Show show_;
    Adopting adopting_;  // the ranks' parents may end before them
    pid_t coordinator_ = -1, main_ = -1;
    std::map<pid_t, int> ended_;  // statuses
    unsigned stop_ = 0, saved_ = 0;

    // Where all go.
    std::string stops_;
    causality::Cut cut_;
    std::optional<causality::Process> stays_;
    std::set<int> released_;
    // What was seen last of ranks that don't stand, and since when it is the same (in ms of a steady clock).
    std::vector<Whereabouts> moving_;
    std::int64_t moved_at_ = 0, said_at_ = 0;

    // Of each stream: bytes that have been looked at, a line without its end, and lines that were shown
    // already and come again after the job was brought back.
    struct Seen {
        std::uint64_t bytes = 0;
        std::string rest;
        std::multiset<std::string> again;
    };
    std::array<Seen, 2> seen_;
};

}  // namespace cairn::mpi::debug::live
